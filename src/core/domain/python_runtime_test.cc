#include "core/domain/python_runtime.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(PythonRuntime, IsAVersionThatExists) {
  for (const char* good : {"python3", "python3.9", "python3.11", "python3.15"}) {
    EXPECT_TRUE(is_python_runtime(good)) << good;
  }
  for (const char* bad : {"python", "python2.7", "python3.", "python3.019", "python3.19",
                          "python3x", "python3.1", "python3.11t"}) {
    EXPECT_FALSE(is_python_runtime(bad)) << bad;
  }
}

}  // namespace
}  // namespace lambent
