// The mechanics of a long table: which rows match, in which order, and which of them are in view.
import { natural } from './order.ts';

export type Cell = string | number | null | undefined;

export interface Column<T> {
  id: string;
  title: string;
  /** What it is sorted and filtered by, and shown as where `text` is left out. */
  value: (row: T) => Cell;
  text?: (row: T) => string;
  /** Numbers stand at the end of their column. */
  numeric?: boolean;
  /** It holds controls: its name is for screen readers, and nothing is sorted by it. */
  control?: boolean;
  /** A CSS length; columns without share what is left. */
  width?: string;
  /** Not shown in windows narrower than this. */
  from?: 'narrow' | 'wide';
}

export interface Order {
  column: string;
  descending: boolean;
}

export function shown<T>(column: Column<T>, row: T): string {
  return column.text ? column.text(row) : String(column.value(row) ?? '–');
}

/** Rows whose columns hold every word of `filter`, in any case. */
export function filtered<T>(rows: readonly T[], columns: readonly Column<T>[], filter: string): readonly T[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = columns
      .map((column) => `${shown(column, row)} ${column.value(row) ?? ''}`)
      .join(' ')
      .toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Numbers by value, the rest as people count (`disk2` before `disk10`); nothing at the end either way. */
export function compare(a: Cell, b: Cell, descending: boolean): number {
  const nothing = (cell: Cell) => cell === null || cell === undefined || cell === '';
  if (nothing(a) || nothing(b)) return Number(nothing(a)) - Number(nothing(b));
  const order = typeof a === 'number' && typeof b === 'number' ? a - b : natural(String(a), String(b));
  return descending ? -order : order;
}

/** The rows in order; those that are alike stay as they were. */
export function sorted<T>(rows: readonly T[], columns: readonly Column<T>[], order: Order | null): readonly T[] {
  const column = columns.find((candidate) => candidate.id === order?.column);
  if (!order || !column) return rows;
  return [...rows].sort((a, b) => compare(column.value(a), column.value(b), order.descending));
}

/** The first and the last but one of the rows that are in view, with some more on either side. */
export function inView(total: number, rowHeight: number, scrollTop: number, height: number, more = 8): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - more);
  const end = Math.min(total, Math.ceil((scrollTop + height) / rowHeight) + more);
  return [Math.min(first, end), end];
}
