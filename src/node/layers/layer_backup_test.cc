#include "node/layers/layer_backup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "core/domain/layer.h"
#include "node/layers/layer_folder.h"

namespace lambent::layers {
namespace {

namespace fs = std::filesystem;

class LayerBackupTest : public testing::Test {
 protected:
  void publish(uint64_t number, const std::string& text) {
    const std::string files = folder_ / ("files" + std::to_string(number));
    fs::create_directories(files + "/python");
    std::ofstream(files + "/python/words.py") << text;
    LayerVersion version;
    version.reference = {"words", number};
    ASSERT_TRUE(write_version(version_folder(number), base64_encode(*archive::make_zip(files)),
                              false, version)
                    .ok());
    std::ofstream(tenant_ + "/words/last") << number;
  }
  std::string version_folder(uint64_t number) const {
    return tenant_ + "/words/" + std::to_string(number);
  }

  const TemporaryFolder folder_;
  const std::string tenant_ = folder_ / "from/7";
  const std::string copy_ = folder_ / "to/7";
  const std::string digest_ = std::string(kLayersDigestLength, 'd');
  LayerCopy layers_{folder_ / "from", folder_ / "to"};
};

TEST_F(LayerBackupTest, VersionsAndWhatFunctionsSeeAreCopiedAndLieThereOnce) {
  publish(1, "first");
  const std::string composed = tenant_ + "/.composed/" + digest_;
  ASSERT_TRUE(compose({version_folder(1)}, composed).ok());
  ASSERT_TRUE(layers_.copy().ok());
  EXPECT_EQ(read_version(copy_ + "/words/1")->reference.name, "words");
  EXPECT_EQ(*read_file(copy_ + "/words/last", 10), "1");
  EXPECT_TRUE(fs::equivalent(copy_ + "/words/1/content/python/words.py",
                             copy_ + "/.composed/" + digest_ + "/python/words.py"));
  EXPECT_EQ(fs::last_write_time(copy_ + "/words/1/content/python/words.py"),
            fs::last_write_time(version_folder(1) + "/content/python/words.py"));
}

TEST_F(LayerBackupTest, ASecondCallBringsWhatCame) {
  publish(1, "first");
  ASSERT_TRUE(layers_.copy().ok());
  publish(2, "second");
  fs::remove_all(version_folder(1));
  ASSERT_TRUE(layers_.copy().ok());
  EXPECT_TRUE(read_version(copy_ + "/words/1").ok()) << "a function that was copied may have it";
  EXPECT_TRUE(read_version(copy_ + "/words/2").ok());
  EXPECT_EQ(*read_file(copy_ + "/words/last", 10), "2");
}

TEST_F(LayerBackupTest, WhatIsNotWholeOrComesAgainIsLeftOut) {
  publish(1, "first");
  publish(2, "second");
  fs::remove(version_folder(2) + "/layer.json");  // it is just being published, or removed
  const std::string composed = tenant_ + "/.composed/" + digest_;
  ASSERT_TRUE(compose({version_folder(1)}, composed).ok());
  std::ofstream(composed + ".copied") << "5";  // of another node
  fs::create_directories(tenant_ + "/.composed/" + std::string(40, 'e') + ".partial");
  ASSERT_TRUE(layers_.copy().ok());
  EXPECT_TRUE(fs::exists(copy_ + "/words/1"));
  EXPECT_FALSE(fs::exists(copy_ + "/words/2"));
  EXPECT_FALSE(fs::exists(copy_ + "/.composed"));
}

TEST_F(LayerBackupTest, WithoutLayersThereIsNothingToCopy) {
  EXPECT_TRUE(layers_.copy().ok());
  EXPECT_FALSE(fs::exists(folder_ / "to"));
}

}  // namespace
}  // namespace lambent::layers
