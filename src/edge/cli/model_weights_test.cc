#include "edge/cli/model_weights.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/testing/testing.h"
#include "edge/cli/deploy.h"

namespace lambent::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelWeightsTest : public testing::Test {
 protected:
  std::string file(const std::string& name, size_t size) {
    EXPECT_TRUE(write_file_atomically(path(name), std::string(size, 'w'), false).ok());
    return path(name);
  }
  std::string path(const std::string& name) const { return temporary.path() + "/" + name; }
  TemporaryFolder temporary;
};

TEST_F(ModelWeightsTest, ASmallModelIsAPackageWithWhatLiesBesideIt) {
  file("net.onnx", 100);
  file("net.onnx.data", 50);
  file("other.onnx", 70);
  const auto package = make_package({.path = path("net.onnx")});
  ASSERT_TRUE(package.ok()) << to_string(package.error());
  EXPECT_FALSE(package->weights);
  EXPECT_EQ(package->manifest.spec.handler, "lambent-model-server model.onnx");
  EXPECT_THAT(package->zip, HasSubstr("net.onnx.data"));
  EXPECT_THAT(package->zip, testing::Not(HasSubstr("other.onnx")));
}

TEST_F(ModelWeightsTest, ALargeModelIsInAVolumeThatTheFunctionMounts) {
  file("net.onnx", 100);
  file("net.onnx_data", kWeightsInPackage.count);
  const auto package = make_package({.path = path("net.onnx")});
  ASSERT_TRUE(package.ok()) << to_string(package.error());
  ASSERT_TRUE(package->weights);
  const ModelWeights& weights = *package->weights;
  EXPECT_EQ(weights.volume, "net-weights");
  EXPECT_EQ(weights.size, kWeightsInPackage + Bytes(100));
  ASSERT_EQ(weights.files.size(), 2U);
  EXPECT_EQ(weights.files[0].file.path, weights.folder + "/model.onnx");
  EXPECT_EQ(weights.files[1].file.path, weights.folder + "/net.onnx_data");
  EXPECT_LT(package->zip.size(), 4096U);
  const FunctionSpec& spec = package->manifest.spec;
  EXPECT_EQ(spec.handler, "lambent-model-server /mnt/model/" + weights.folder + "/model.onnx");
  EXPECT_THAT(spec.mounts,
              ElementsAre(Mount{.volume = "net-weights", .host = {}, .at = "/mnt/model"}));
  EXPECT_GT(spec.memory, weights.size * 2);
}

TEST_F(ModelWeightsTest, OtherWeightsHaveAFolderOfTheirOwn) {
  const std::vector<LocalFile> one = {{file("a", 10), "model.onnx"}};
  const std::vector<LocalFile> other = {{file("b", 11), "model.onnx"}};
  Manifest manifest;
  manifest.spec.name.name = std::string(64, 'n');
  manifest.spec.handler = "lambent-model-server model.onnx";
  Manifest second = manifest;
  const auto first = set_weights_apart(manifest, one);
  const auto changed = set_weights_apart(second, other);
  ASSERT_TRUE(first.ok() && changed.ok());
  EXPECT_NE(first->folder, changed->folder);
  EXPECT_EQ(first->volume, changed->volume);
  EXPECT_EQ(first->volume.size(), 64U);
}

TEST_F(ModelWeightsTest, AFolderKeepsItsNamesAndWhatItsManifestSays) {
  std::filesystem::create_directories(path("m/data"));
  std::filesystem::create_directories(path("m/.git"));
  file("m/.git/pack", 10);
  file("m/net.onnx", 10);
  file("m/data/w.bin", kWeightsInPackage.count);
  ASSERT_TRUE(write_file_atomically(path("m/lambent.toml"),
                                    "kind = \"model\"\nname = \"m\"\nmodel = \"net.onnx\"\n"
                                    "memory = \"2G\"\nthreads = 2\n",
                                    false)
                  .ok());
  const auto package = make_package({.path = path("m")});
  ASSERT_TRUE(package.ok()) << to_string(package.error());
  ASSERT_TRUE(package->weights);
  EXPECT_EQ(package->weights->files.size(), 2U);
  EXPECT_EQ(package->manifest.spec.memory, Bytes::mib(2048));
  EXPECT_EQ(package->manifest.spec.handler, "lambent-model-server /mnt/model/" +
                                                package->weights->folder + "/net.onnx --threads 2");
}

TEST_F(ModelWeightsTest, ABadNameIsOneOfAFunction) {
  file("net.onnx", kWeightsInPackage.count + 1);
  const auto package = make_package({.path = path("net.onnx"), .name = "no good"});
  ASSERT_FALSE(package.ok());
  EXPECT_THAT(package.error().message, testing::Not(HasSubstr("volume")));
}

TEST_F(ModelWeightsTest, APlaceThatIsTakenIsSaid) {
  Manifest manifest;
  manifest.spec.name.name = "m";
  manifest.spec.handler = "lambent-model-server model.onnx";
  manifest.spec.mounts = {{.volume = "v", .host = {}, .at = "/mnt/model"}};
  const auto weights = set_weights_apart(manifest, {{file("a", 10), "model.onnx"}});
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(weights.error().message, HasSubstr("/mnt/model"));
}

}  // namespace
}  // namespace lambent::cli
