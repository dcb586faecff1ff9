#include "core/archive/code_delta.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/archive/zip.h"
#include "core/base/random.h"
#include "core/base/testing/testing.h"

namespace lambent::archive {
namespace {

std::string noise(uint64_t seed, size_t size) {
  SeededRandom random(seed);
  std::string bytes;
  while (bytes.size() < size) bytes += static_cast<char>(random.next());
  return bytes;
}

class CodeDelta : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
  }
  std::string zip() {
    auto made = make_zip(folder_.string());
    EXPECT_TRUE(made.ok());
    return made.ok() ? *made : "";
  }
  static std::string delta_of(const std::string& base, const std::string& zip) {
    const auto delta = make_code_delta(zip, code_parts_of(base).value());
    EXPECT_TRUE(delta.ok());
    return delta.ok() ? *delta : "";
  }
  static void expect_refused(std::string_view base, std::string_view delta,
                             const std::string& words) {
    const auto made = apply_code_delta(base, delta);
    ASSERT_FALSE(made.ok()) << words;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(made.error().message.find(words), std::string::npos) << made.error().message;
  }

  TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(CodeDelta, PartsAreThePackageOneAfterTheOther) {
  write("a.py", "pass");
  write("b.bin", noise(1, 5000));
  const std::string package = zip();
  const auto parts = code_parts_of(package);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 3u) << "two files and the directory";
  size_t at = 0;
  for (const CodePart& part : *parts) {
    EXPECT_EQ(part.sha256, code_sha256(package.substr(at, part.size.count)));
    at += part.size.count;
  }
  EXPECT_EQ(at, package.size());
  // What stands before a zip belongs to it.
  const auto behind_a_line = code_parts_of("#!/bin/sh\n" + package);
  ASSERT_TRUE(behind_a_line.ok());
  EXPECT_EQ(behind_a_line->size(), 3u);
  EXPECT_EQ((*behind_a_line)[1], (*parts)[1]);
  EXPECT_FALSE(code_parts_of("no zip").ok());
}

TEST_F(CodeDelta, AChangedLineIsALittle) {
  for (int i = 0; i < 20; ++i) write("data" + std::to_string(i), noise(i, 50'000));
  write("data7.py", "print(1)\n");
  const std::string before = zip();
  write("data7.py", "print('another line, which is longer')\n");
  const std::string after = zip();
  ASSERT_GT(after.size(), 1'000'000u);
  const std::string delta = delta_of(before, after);
  EXPECT_LT(delta.size(), 4'000u);
  EXPECT_EQ(apply_code_delta(before, delta).value(), after);
  // And back, with a file more and one less.
  std::filesystem::remove(folder_ / "data3");
  write("new", noise(99, 3000));
  const std::string other = zip();
  EXPECT_EQ(apply_code_delta(after, delta_of(after, other)).value(), other);
  EXPECT_EQ(apply_code_delta(other, delta_of(other, before)).value(), before);
}

TEST_F(CodeDelta, WhatIsTheSameIsOneStep) {
  write("a", noise(1, 3000));
  write("b", noise(2, 3000));
  const std::string package = zip();
  EXPECT_EQ(delta_of(package, package).size(), 8u + 1 + 16);
}

TEST_F(CodeDelta, WhatIsNoDeltaIsRefused) {
  write("a", noise(1, 3000));
  const std::string before = zip();
  write("b", "b");
  const std::string delta = delta_of(before, zip());
  // Cut off anywhere but between two steps, it is none.
  size_t whole = 0;
  for (size_t size = 0; size < delta.size(); ++size) {
    const auto made = apply_code_delta(before, delta.substr(0, size));
    if (made.ok()) {
      ++whole;
    } else {
      EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    }
  }
  EXPECT_EQ(whole, 2u) << "no step, and one";
  expect_refused(before, "", "does not begin");
  expect_refused(before, "PK\3\4", "does not begin");
  expect_refused(before, delta + '\3', "a step of kind 3");
  const auto copy = [](uint64_t offset, uint64_t length) {
    std::string step(1, '\1');
    for (const uint64_t number : {offset, length}) {
      for (int i = 0; i < 8; ++i) step += static_cast<char>(number >> (8 * i) & 0xff);
    }
    return "lambentD" + step;
  };
  expect_refused(before, copy(before.size(), 1), "copies what the code has not");
  expect_refused(before, copy(1, before.size()), "copies what the code has not");
  expect_refused(before, copy(UINT64_MAX, 2), "copies what the code has not");
  expect_refused(before, copy(2, UINT64_MAX), "copies what the code has not");
}

TEST_F(CodeDelta, MakesNoMoreThanItMay) {
  const std::string base(1000, 'x');
  std::string delta = "lambentD";
  const std::string copy("\1\0\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0", 17);
  for (int i = 0; i < 3; ++i) delta += copy;
  EXPECT_EQ(apply_code_delta(base, delta, Bytes(3000))->size(), 3000u);
  const auto made = apply_code_delta(base, delta, Bytes(2999));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace lambent::archive
