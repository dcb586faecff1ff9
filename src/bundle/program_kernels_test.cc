#include "bundle/program_kernels.h"

#include <gtest/gtest.h>

namespace lambent::bundle {
namespace {

TEST(ProgramKernels, SymbolsAreReadAsCPlusPlusNamesThem) {
  EXPECT_EQ(expression_of_symbol("vector_add"), (KernelExpression{"vector_add", ""}));
  EXPECT_EQ(expression_of_symbol("_Z4vaddPKfS0_Pfi"),
            (KernelExpression{"vadd", "(float const*, float const*, float*, int)"}));
  EXPECT_EQ(expression_of_symbol("_Z5scaleILi3EEvPfi"),
            (KernelExpression{"scale<3>", "(float*, int)"}));
  EXPECT_EQ(expression_of_symbol("_ZN4mine5resetEv"), (KernelExpression{"mine::reset", "()"}));
  EXPECT_EQ(expression_of_symbol("_Z3runIN4mine3AddEEvT_"),
            (KernelExpression{"run<mine::Add>", "(mine::Add)"}));
}

}  // namespace
}  // namespace lambent::bundle
