// What each input decides: every figure of the claims over ESG on P1, with the input halved and
// doubled. Functions over values.
#pragma once

#include <string>

#include "bench/paper_fluidfaas/plan.h"

namespace lambent::paper_fluidfaas {

struct Sensitivity {
  // By load, figure: its value as it is, and the guesses that move it by more than a fifth.
  std::string verdicts;
  std::string rows;  // of every input
};
// The medium load and the heavy one; quick: the heavy one alone. Prints a table.
Sensitivity sensitivity_of(const Plan& plan);

}  // namespace lambent::paper_fluidfaas
