#include "gpu/cublas/call.h"

#include <gtest/gtest.h>

#include <functional>

#include "gpu/cublas/testing/testing.h"

namespace lambent::cublas {
namespace {

using kernel_graph::BufferArgument;
using kernel_graph::Launch;
using kernel_graph::LiteralArgument;

char letter_of(Number number) {
  switch (number) {
    case Number::kFloat:
      return 's';
    case Number::kDouble:
      return 'd';
    case Number::kComplex:
      return 'c';
  }
  return 0;
}

// What cuBLAS writes, by its reference: an element of a column-major matrix lies at row + column *
// leading dimension.
void do_call(const Call& call, const std::string& a, const std::string& b, std::string& c) {
  const char letter = letter_of(call.number);
  const size_t bytes = letter == 's' ? 4 : 8;
  const auto at = [&](const std::string& from, size_t index) {
    return number_at(letter, from.data() + index * bytes);
  };
  const auto element = [&](const std::string& from, int stride, int how, int row, int column) {
    const auto index = [&](int i, int j) { return i + static_cast<size_t>(j) * stride; };
    if (how == 0) return at(from, index(row, column));
    const Wide value = at(from, index(column, row));
    return how == 2 ? std::conj(value) : value;
  };
  const Wide alpha = number_at(letter, call.alpha.data());
  const Wide beta = number_at(letter, call.beta.data());
  const auto write = [&](size_t index, Wide value) {
    c.replace(index * bytes, bytes, bytes_of(letter, value));
  };
  if (call.routine == Routine::kAxpy) {
    for (int i = 0; i < call.n; ++i) write(i, alpha * at(b, i) + at(c, i));
    return;
  }
  if (call.routine == Routine::kGemv) {
    const int rows = call.how_a == 0 ? call.m : call.n;
    const int columns = call.how_a == 0 ? call.n : call.m;
    for (int row = 0; row < rows; ++row) {
      Wide sum = 0;
      for (int i = 0; i < columns; ++i) {
        sum += element(a, call.stride_a, call.how_a, row, i) * at(b, i);
      }
      write(row, alpha * sum + beta * at(c, row));
    }
    return;
  }
  for (int row = 0; row < call.m; ++row) {
    for (int column = 0; column < call.n; ++column) {
      Wide sum = 0;
      for (int i = 0; i < call.k; ++i) {
        sum += element(a, call.stride_a, call.how_a, row, i) *
               element(b, call.stride_b, call.how_b, i, column);
      }
      const size_t index = row + static_cast<size_t>(column) * call.stride_c;
      write(index, alpha * sum + beta * at(c, index));
    }
  }
}

TEST(Calls, ComputeWhatTheLaunchWouldHaveComputed) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const RandomLaunch made = random_launch(random, 9);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + made.letter + made.routine);
    const std::string operands[] = {random_numbers(made.letter, made.size_a, random),
                                    random_numbers(made.letter, made.size_b, random),
                                    random_numbers(made.letter, made.size_c, random)};
    const Launch launch = launch_of(made);
    const auto call = call_of(launch);
    ASSERT_TRUE(call.has_value());
    const auto operand = [&](uint8_t argument) {
      const uint32_t buffer = std::get<BufferArgument>(launch.arguments[argument]).buffer;
      return operands[made.has_a() ? buffer : buffer + 1];
    };
    std::string result = operand(call->argument_c);
    const std::string a = call->routine == Routine::kAxpy ? "" : operand(call->argument_a);
    do_call(*call, a, operand(call->argument_b), result);
    const Expected expected = expected_of(made, operands[0], operands[1], operands[2]);
    for (size_t i = 0; i < made.size_c; ++i) {
      const Wide got = number_at(made.letter, result.data() + i * made.number_bytes());
      ASSERT_LE(std::abs(got - expected.values[i]), expected.tolerances[i]) << "element " << i;
    }
  }
}

// A product of 100 x 70 and 70 x 30 floats.
Launch product() {
  RandomLaunch made;
  made.routine = "gemm";
  made.m = 100, made.k = made.stride_a = 70, made.n = made.stride_b = made.stride_c = 30;
  made.alpha = 1;
  return launch_of(made);
}

void set(Launch& launch, size_t argument, int value) {
  std::get<LiteralArgument>(launch.arguments[argument]) = literal(value);
}

TEST(Calls, AreAskedForWithTheOperandsExchanged) {
  const auto call = call_of(product());
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->m, 30);
  EXPECT_EQ(call->n, 100);
  EXPECT_EQ(call->k, 70);
  EXPECT_EQ(call->argument_a, 1);
  EXPECT_EQ(call->argument_b, 0);
  EXPECT_EQ(call->stride_a, 30);
  EXPECT_EQ(call->stride_b, 70);
}

TEST(Calls, AreNotMadeOfWhatCublasWouldDoOtherwise) {
  const std::pair<const char*, std::function<void(Launch&)>> changes[] = {
      {"another bundle", [](Launch& launch) { launch.bundle = "bundles/blas"; }},
      {"another kernel", [](Launch& launch) { launch.kernel = "sgemmx"; }},
      {"no kernel", [](Launch& launch) { launch.kernel = ""; }},
      {"half precision", [](Launch& launch) { launch.kernel = "hgemm"; }},
      {"an argument less", [](Launch& launch) { launch.arguments.pop_back(); }},
      {"columns left out", [](Launch& launch) { launch.grid.x = 0; }},
      {"rows left out", [](Launch& launch) { launch.grid.y = 1; }},
      {"done twice", [](Launch& launch) { launch.grid.z = 2; }},
      {"other threads",
       [](Launch& launch) {
         launch.block = {16, 8, 1};
       }},
      {"an empty product", [](Launch& launch) { set(launch, 5, 0); }},
      {"less than nothing", [](Launch& launch) { set(launch, 3, -100); }},
      {"rows that overlap", [](Launch& launch) { set(launch, 6, 69); }},
      {"rows of the result that overlap", [](Launch& launch) { set(launch, 8, 29); }},
      {"an unknown way", [](Launch& launch) { set(launch, 9, 3); }},
      {"an alpha of zero", [](Launch& launch) { set(launch, 11, 0); }},
      {"an alpha of minus zero", [](Launch& launch) { set(launch, 11, INT32_MIN); }},
      {"an alpha from memory", [](Launch& launch) { launch.arguments[11] = BufferArgument{}; }},
      {"a matrix by value", [](Launch& launch) { launch.arguments[0] = literal(1); }},
  };
  for (const auto& [name, change] : changes) {
    Launch launch = product();
    change(launch);
    EXPECT_FALSE(call_of(launch).has_value()) << name;
  }
  Launch larger = product();
  larger.grid = {9, 9, 1};
  EXPECT_TRUE(call_of(larger).has_value()) << "blocks that have nothing to do";
}

}  // namespace
}  // namespace lambent::cublas
