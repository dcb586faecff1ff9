#include "edge/cli/store_listing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "edge/cli/model_folder.h"

namespace lambent::cli {
namespace {

const std::string kDigest(64, 'a');

std::string page_of(const std::string& inner) {
  return "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">"
         "<Name>models</Name><Prefix>a</Prefix>" +
         inner + "</ListBucketResult>";
}

TEST(StoreListing, HasKeysAndSizes) {
  const auto page =
      parse_listing(page_of("<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                            "<Contents><Key>a+b/gr%C3%B6%C3%9Fe%2B1</Key><ETag>&quot;x&quot;</"
                            "ETag><Size>5</Size></Contents>"
                            "<Contents><Size>0</Size><Key>c/</Key></Contents>"
                            "<NextContinuationToken>a&amp;b</NextContinuationToken>"));
  ASSERT_TRUE(page.ok()) << to_string(page.error());
  EXPECT_EQ(page->objects,
            (std::vector<ListedObject>{{"a b/größe+1", Bytes(5)}, {"c/", Bytes(0)}}));
  EXPECT_EQ(page->next, "a&b");
}

TEST(StoreListing, IsTakenAsItStandsWhereItIsNotEncoded) {
  const auto page = parse_listing(
      page_of("<Contents><Key>a+b%41 &lt;&#233;&#x1F600;&apos;</Key><Size>1</Size></Contents>"));
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->objects[0].key, "a+b%41 <é😀'");
  EXPECT_EQ(page->next, "");
}

TEST(StoreListing, ThatMakesNoSenseIsRefused) {
  const std::string key = "<Key>k</Key>";
  for (const std::string& text :
       {std::string(), std::string("<html>sign in</html>"),
        page_of("<Contents>" + key + "</Contents>"),
        page_of("<Contents>" + key + "<Size>-1</Size></Contents>"),
        page_of("<Contents><Key>&nothing;</Key><Size>1</Size></Contents>"),
        page_of("<Contents><Key>&#xd800;</Key><Size>1</Size></Contents>"),
        page_of("<Contents><Key>a&b</Key><Size>1</Size></Contents>"),
        page_of("<EncodingType>url</EncodingType><Contents><Key>%4</Key><Size>1</Size></Contents>"),
        page_of("<IsTruncated>true</IsTruncated>")}) {
    const auto page = parse_listing(text);
    ASSERT_FALSE(page.ok()) << text;
    EXPECT_EQ(page.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(StoreSums, AreLinesOfSha256sum) {
  const auto sums = parse_sums("# of today\n" + kDigest + "  1/model.onnx\r\n" +
                               std::string(64, 'B') + " *./config.pbtxt\n\n");
  ASSERT_TRUE(sums.ok()) << to_string(sums.error());
  EXPECT_EQ(*sums, (std::map<std::string, std::string>{{"1/model.onnx", kDigest},
                                                       {"config.pbtxt", std::string(64, 'b')}}));
  for (const std::string& text :
       {kDigest + " 1/model.onnx\n", kDigest + "  ../model.onnx\n", kDigest + "  /etc/passwd\n",
        std::string(63, 'a') + "   1/model.onnx\n", std::string("<html>\n")}) {
    const auto bad = parse_sums("\n" + text);
    ASSERT_FALSE(bad.ok()) << text;
    EXPECT_EQ(bad.error().message.find("line 2 "), 0u) << bad.error().message;
  }
}

TEST(StoredModels, AreTheFolderItselfOrThoseInIt) {
  const auto itself =
      find_stored_models({"3/model.onnx", "config.pbtxt", "3/more/w.bin", "1/model.onnx",
                          "README.md", "old/1/model.onnx", "03/model.onnx"});
  ASSERT_TRUE(itself.ok());
  ASSERT_EQ(itself->size(), 1u);
  EXPECT_EQ((*itself)[0].folder, "");
  EXPECT_TRUE((*itself)[0].has_config);
  EXPECT_EQ((*itself)[0].versions,
            (std::map<uint64_t, std::vector<std::string>>{{1, {"1/model.onnx"}},
                                                          {3, {"3/model.onnx", "3/more/w.bin"}}}));
  const auto several =
      find_stored_models({"b/2/model.onnx", "a/1/model.onnx", "a/config.pbtxt", "c/notes.txt"});
  ASSERT_TRUE(several.ok());
  ASSERT_EQ(several->size(), 2u);
  EXPECT_EQ((*several)[0].folder, "a/");
  EXPECT_TRUE((*several)[0].has_config);
  EXPECT_EQ((*several)[1].versions.at(2), std::vector<std::string>{"b/2/model.onnx"});
}

TEST(StoredModels, HaveNoManifest) {
  const auto models = find_stored_models({"1/model.onnx", "1/lambent.toml", "lambent.toml"});
  ASSERT_TRUE(models.ok());
  EXPECT_EQ((*models)[0].versions.at(1), std::vector<std::string>{"1/model.onnx"});
}

// What a store says is one model must not be another one once it lies on this machine.
TEST(StoredModels, AreTheSameOnesAsInAFolderOfThisMachine) {
  const std::vector<std::vector<std::string>> stores = {
      {"1/model.onnx", "2/model.onnx", "2/w.bin"},
      {"5/1/model.onnx", "5/lambent.toml"},
      {"5/1/model.onnx", "5/w.bin"},
      {"5/1/model.onnx", "config.pbtxt"},
      {"5/1/model.onnx", "6/model.onnx"},
      {"a/1/model.onnx", "b/2/notes.txt", "b/config.pbtxt", "c/3/notes.txt"}};
  for (const std::vector<std::string>& paths : stores) {
    const TemporaryFolder temporary;
    const std::string top = temporary.path();
    for (const std::string& path : paths) {
      const std::filesystem::path file = std::filesystem::path(top) / path;
      std::filesystem::create_directories(file.parent_path());
      ASSERT_TRUE(write_file_atomically(file, "kind = \"model\"\n", false).ok());
    }
    std::map<std::string, std::set<uint64_t>> there;
    const auto add = [&](const ModelFolder& folder) {
      for (const auto& [version, path] : folder.versions) there[folder.path].insert(version);
    };
    if (const auto itself = find_model_folder(top)) {
      add(*itself);
    } else {
      for (const ModelFolder& folder : find_model_repository(top)) add(folder);
    }
    const auto models = find_stored_models(paths);
    ASSERT_TRUE(models.ok()) << paths[0];
    std::map<std::string, std::set<uint64_t>> stored;
    for (const StoredModel& model : *models) {
      const std::string path = top + "/" + model.folder;
      for (const auto& [version, files] : model.versions) {
        stored[path.substr(0, path.size() - 1)].insert(version);
      }
    }
    EXPECT_EQ(stored, there) << paths[0] << ", " << paths[1];
  }
}

TEST(StoredModels, AreNoneWithoutAVersion) {
  EXPECT_EQ(find_stored_models({"model.onnx", "a/model.onnx"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_stored_models({"1/notes.txt", "a/1/notes.txt"}).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(find_stored_models({}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(find_stored_models({"1/../../x"}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lambent::cli
