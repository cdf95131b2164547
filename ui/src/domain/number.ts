/** With commas between the thousands. */
export const number = (n: number) => n.toLocaleString("en");
