// Tagged templates that make elements.
export default function htm(strings: TemplateStringsArray, ...values: any[]): any;
