/* The order of search results: what helps and what explains first, then the reference, then figures. A word in a title (15)
   counts more than the folder of its page. */
const FIRST = [["start/", 9], ["how-to/", 8], ["concepts/", 7], ["tutorials/", 4], ["results/", -10], ["reference/generated/", -6]];
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
