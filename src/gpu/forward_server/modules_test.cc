#include "gpu/forward_server/modules.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class ModulesTest : public PartsTest {};

TEST_F(ModulesTest, AModuleCountsUntilItIsUnloadedAndItsImageOnlyWhileItIsLoaded) {
  const uint64_t module = load_kernels();
  EXPECT_EQ(modules_.context_of(module), context_);
  EXPECT_GT(memory_.used(), Bytes(0));
  EXPECT_TRUE(has_all_host_memory());
  modules_.unload(module);
  EXPECT_EQ(modules_.context_of(module), 0U);
  EXPECT_EQ(memory_.used(), Bytes(0));
  modules_.unload(module);  // nothing happens
}

TEST_F(ModulesTest, AnImageThatIsNoneIsRefusedAndCountsNothing) {
  upload("nothing that a driver takes");
  EXPECT_TRUE(ask(modules_, kLoadModule, {context_, 0}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(memory_.used(), Bytes(0));
  EXPECT_TRUE(has_all_host_memory());
}

TEST_F(ModulesTest, AModuleNeedsAContext) {
  upload("an image");
  EXPECT_TRUE(ask(modules_, kLoadModule, {context_ + 1, 0}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_TRUE(has_all_host_memory());
}

TEST_F(ModulesTest, AFunctionHasOneNumberHoweverItIsFoundAndGoesWithItsModule) {
  const uint64_t module = load_kernels(), function = find_kernel(module, "count");
  EXPECT_EQ(find_kernel(module, "count"), function);
  EXPECT_NE(find_kernel(module, "add"), function);
  EXPECT_TRUE(ask(modules_, kListFunctions, {module, 1}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  std::vector<uint64_t> all(value(0));
  std::memcpy(all.data(), pages_.chunk_bytes[1], all.size() * sizeof(uint64_t));
  EXPECT_EQ(std::count(all.begin(), all.end(), function), 1);
  EXPECT_FALSE(has_all_host_memory());
  modules_.unload(module);
  EXPECT_EQ(functions_.find(function), nullptr);
  EXPECT_TRUE(has_all_host_memory());
}

TEST_F(ModulesTest, ANameIsNotFoundIfItIsUnknownOrHasAZeroInIt) {
  const uint64_t module = load_kernels();
  EXPECT_TRUE(ask(modules_, kFindFunction, {module}, "no such kernel"));
  EXPECT_EQ(result(), CUDA_ERROR_NOT_FOUND);
  EXPECT_TRUE(ask(modules_, kFindFunction, {module}, std::string("count\0", 6)));
  EXPECT_EQ(result(), CUDA_ERROR_NOT_FOUND);
  EXPECT_TRUE(ask(modules_, kFindFunction, {module + 16}, "count"));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModulesTest, TheModulesOfAContextGoWithItAndNoOther) {
  const uint64_t mine = load_kernels(), context = context_;
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  context_ = value(0);
  const uint64_t others = load_kernels();
  modules_.unload_all_of(context);
  EXPECT_EQ(modules_.context_of(mine), 0U);
  EXPECT_EQ(modules_.context_of(others), context_);
}

}  // namespace
}  // namespace lambent::forward_server
