/* The order of search results: what explains and what helps first, then the reference, then figures. */
const FIRST = [["concepts/", 40], ["how-to/", 35], ["start/", 30], ["tutorials/", 20], ["results/", -30], ["reference/generated/", -20]];
var Scorer = {
  score: ([page, , , , score]) => score + (FIRST.find(([folder]) => page.startsWith(folder)) || ["", 0])[1],
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
