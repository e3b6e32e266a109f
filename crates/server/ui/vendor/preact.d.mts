// As much of preact as the pages use.
export function h(type: any, props: any, ...children: any[]): any;
export function render(what: any, where: Element): void;
export function createElement(type: any, props: any, ...children: any[]): any;
