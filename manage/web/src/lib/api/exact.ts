// Numbers of the API that are greater than a number of JavaScript can be: they name something, and nothing is counted with them.

/** An answer's text with ids of 16 digits and more as strings. Quotes within strings are escaped, so none of them is taken for a name. */
export function exactIds(text: string): string {
  return text.replace(/"id":(\d{16,})(?=[,}])/g, '"id":"$1"');
}
