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

TEST_F(ModelWeightsTest, FilesThatAModelNamesComeAlongWhateverTheyAreCalled) {
  // A graph with one tensor, whose entry "location" is "words.bin" (onnx.proto's fields 7, 5, 13).
  const std::string entry = std::string("\x0a\x08location\x12\x09words.bin");
  const std::string tensor = std::string("\x6a") + static_cast<char>(entry.size()) + entry;
  const std::string graph = std::string("\x2a") + static_cast<char>(tensor.size()) + tensor;
  const std::string model = std::string("\x3a") + static_cast<char>(graph.size()) + graph;
  ASSERT_TRUE(write_file_atomically(path("net.onnx"), model, false).ok());
  const auto missing = make_package({.path = path("net.onnx")});
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message,
              HasSubstr("net.onnx keeps tensors in 'words.bin', and that file is not beside it"));
  file("words.bin", 40);
  file("others.bin", 40);
  const auto package = make_package({.path = path("net.onnx")});
  ASSERT_TRUE(package.ok()) << to_string(package.error());
  EXPECT_THAT(package->zip, HasSubstr("words.bin"));
  EXPECT_THAT(package->zip, testing::Not(HasSubstr("others.bin")));
  file("words.bin", kWeightsInPackage.count);
  const auto large = make_package({.path = path("net.onnx")});
  ASSERT_TRUE(large.ok()) << to_string(large.error());
  ASSERT_TRUE(large->weights);
  EXPECT_EQ(large->weights->files.at(1).file.path, large->weights->folder + "/words.bin");
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

// A package of kernels as the importer writes it.
class ConstantsTest : public ModelWeightsTest {
 protected:
  Manifest packed(size_t size) {
    std::filesystem::create_directories(path("package/constants"));
    file("package/constants/a.bin", size);
    file("package/constants/b.bin", 8);
    const std::string graph =
        R"({"buffers":[{"name":"a","file":"constants/a.bin"},{"name":"b","file":"constants/b.bin"},)"
        R"({"name":"again","file":"constants/a.bin"},{"name":"mine","file":"/own/c.bin"},{"name":"x"}],)"
        R"("steps":[]})";
    EXPECT_TRUE(write_file_atomically(path("package/graph.json"), graph, false).ok());
    Manifest manifest;
    manifest.spec.name.name = "net";
    manifest.spec.kind = FunctionKind::kKernel;
    manifest.spec.handler = "graph.json";
    return manifest;
  }
  std::string graph() const { return read_file(path("package/graph.json"), 1 << 20).value(); }
};

TEST_F(ConstantsTest, SmallOnesStayInThePackage) {
  Manifest manifest = packed(kWeightsInPackage.count - 8);
  const std::string before = graph();
  const auto weights = set_constants_apart(manifest, path("package"), path("apart"));
  ASSERT_TRUE(weights.ok()) << to_string(weights.error());
  EXPECT_FALSE(*weights);
  EXPECT_EQ(graph(), before);
  EXPECT_TRUE(manifest.spec.mounts.empty());
  EXPECT_TRUE(std::filesystem::exists(path("package/constants/a.bin")));
}

TEST_F(ConstantsTest, LargeOnesLieInAVolumeWhereTheGraphNamesThem) {
  Manifest manifest = packed(kWeightsInPackage.count);
  auto weights = set_constants_apart(manifest, path("package"), path("apart"));
  ASSERT_TRUE(weights.ok()) << to_string(weights.error());
  ASSERT_TRUE(*weights);
  EXPECT_EQ((*weights)->volume, "net-weights");
  EXPECT_EQ((*weights)->size, kWeightsInPackage + Bytes(8));
  ASSERT_EQ((*weights)->files.size(), 2U);
  const std::string& folder = (*weights)->folder;
  EXPECT_EQ((*weights)->files[0].file.path, folder + "/constants/a.bin");
  EXPECT_EQ(std::filesystem::file_size((*weights)->files[0].file.local), kWeightsInPackage.count);
  EXPECT_FALSE(std::filesystem::exists(path("package/constants/a.bin")));
  EXPECT_THAT(manifest.spec.mounts,
              ElementsAre(Mount{.volume = "net-weights", .host = {}, .at = "/mnt/model"}));
  const std::string at = R"("file":"/mnt/model/)" + folder + "/constants/";
  EXPECT_THAT(graph(), HasSubstr(R"({"name":"a",)" + at + R"(a.bin"},{"name":"b",)" + at +
                                 R"(b.bin"},{"name":"again",)" + at +
                                 R"(a.bin"},{"name":"mine","file":"/own/c.bin"},{"name":"x"})"));
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
