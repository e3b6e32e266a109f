// As much of preact's hooks as the pages use.
type Set<T> = (next: T | ((before: T) => T)) => void;
export function useState<T>(initial: T | (() => T)): [T, Set<T>];
export function useEffect(does: () => void | (() => void), of?: any[]): void;
export function useLayoutEffect(does: () => void | (() => void), of?: any[]): void;
export function useMemo<T>(make: () => T, of: any[]): T;
export function useCallback<T extends Function>(call: T, of: any[]): T;
export function useRef<T>(initial: T): { current: T };
