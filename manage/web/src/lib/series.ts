// Series over time: what a chart draws, and the same in a sentence for those who do not see it.
export interface Series {
  label: string;
  /** One for each time; null where there was no sample. */
  values: readonly (number | null)[];
  /** A custom property of app.css; by default those of the series in turn. */
  color?: string;
  dashed?: boolean;
}

export interface Summary {
  last: number | null;
  mean: number | null;
  most: number | null;
}

export function summary(values: readonly (number | null)[]): Summary {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return { last: null, mean: null, most: null };
  return {
    last: values.at(-1) ?? null,
    mean: known.reduce((sum, value) => sum + value, 0) / known.length,
    most: known.reduce((most, value) => Math.max(most, value), -Infinity),
  };
}

/** `Reads: now 12/s, on average 8/s, at most 40/s.` for each series. */
export function inWords(series: readonly Series[], format: (value: number | null) => string): string {
  const words = ({ label, values }: Series) => {
    const { last, mean, most } = summary(values);
    if (mean === null) return `${label}: no samples.`;
    return `${label}: now ${format(last)}, on average ${format(mean)}, at most ${format(most)}.`;
  };
  return series.map(words).join(' ');
}

/** Texts beside an axis: one that says the same as the one before it is left out, for a step too small for its figures. */
export function distinct(texts: readonly string[]): string[] {
  return texts.map((text, at) => (at > 0 && text === texts[at - 1] ? '' : text));
}
