#include "node/volumes/shared_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "core/base/log.h"
#include "core/base/time.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr TenantId kTenant{7};
constexpr TenantId kOther{8};

class SharedFilesTest : public testing::Test {
 protected:
  SharedFilesTest() {
    std::string name = testing::TempDir() + "/shared.XXXXXX";
    folder_ = mkdtemp(name.data());
    const auto disk = [this](auto work, auto completion) {
      tasks_.push_back({std::move(work), std::move(completion)});
      return true;
    };
    store_ = std::move(*VolumeStore::open(folder_ + "/volumes", clock_, log_, disk));
    std::ofstream(folder_ + "/one") << "the first";
    shared_ = std::make_unique<SharedFiles>(
        store_.get(),
        [this](TenantId tenant) {
          std::vector<SharedFolder> folders;
          if (tenant != kTenant) return folders;
          folders.push_back(
              {"layers", {{{"1.zip", Bytes(9), std::string(64, 'a')}, folder_ + "/one"}}});
          return folders;
        },
        [this](TenantId tenant, const std::string& folder) {
          shown_.push_back(std::to_string(tenant.value) + " " + folder);
        },
        disk);
  }
  ~SharedFilesTest() override {
    shared_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }
  void work() {
    while (!tasks_.empty()) {
      auto [work, completion] = std::move(tasks_.front());
      tasks_.pop_front();
      work();
      completion();
    }
  }
  void create(TenantId tenant, const std::string& name) {
    store_->create_volume(tenant, name,
                          [](const auto& made) { EXPECT_TRUE(made.ok()) << "create"; });
    work();
  }
  std::vector<std::string> names(TenantId tenant) {
    std::vector<std::string> names;
    for (const VolumeStatus& each : shared_->list_volumes(tenant)) names.push_back(each.name);
    return names;
  }
  std::string read(const std::string& volume, const std::string& path) {
    std::string read = "no answer";
    shared_->open_file(kTenant, volume, path, [&](auto opened) {
      if (!opened.ok()) {
        read = name_of(opened.error().code);
        return;
      }
      download_ = *opened;
      download_->read(Bytes(4), Bytes(5), [&](auto bytes) { read = *bytes; });
    });
    work();
    return read;
  }

  std::string folder_;
  FakeClock clock_;
  NullLogSink log_;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> tasks_;
  std::unique_ptr<VolumeStore> store_;
  std::unique_ptr<SharedFiles> shared_;
  std::shared_ptr<VolumeDownload> download_;
  std::vector<std::string> shown_;
};

TEST_F(SharedFilesTest, FoldersStandBesideVolumesAndInTheirTenantsListOnly) {
  create(kTenant, "weights");
  create(kTenant, "data");
  create(kOther, "weights");
  EXPECT_THAT(names(kTenant), ElementsAre("data", "layers", "weights"));
  EXPECT_THAT(names(kOther), ElementsAre("weights"));
  const auto files = shared_->list_files(kTenant, "layers", "", "", 10);
  ASSERT_TRUE(files.ok());
  EXPECT_THAT(*files, ElementsAre(VolumeFile{"1.zip", Bytes(9), std::string(64, 'a')}));
  EXPECT_TRUE(shared_->list_files(kTenant, "layers", "", "1.zip", 10)->empty());
  EXPECT_TRUE(shared_->list_files(kTenant, "weights", "", "", 10).ok());
  EXPECT_EQ(shared_->list_files(kOther, "layers", "", "", 10).error().code, ErrorCode::kNotFound);
}

TEST_F(SharedFilesTest, AFolderHasTheVersionThatACopyOfItHas) {
  VolumeIndex index;
  index.put({"1.zip", Bytes(9), std::string(64, 'a')});
  EXPECT_EQ(shared_->list_volumes(kTenant).at(0).version, index.version());
}

TEST_F(SharedFilesTest, AVolumeWithTheNameOfAFolderIsNotShown) {
  create(kTenant, "layers");
  EXPECT_THAT(names(kTenant), ElementsAre("layers"));
  EXPECT_EQ(shared_->list_volumes(kTenant).at(0).files, 1u);
}

TEST_F(SharedFilesTest, FilesOfBothAreReadAndOthersAreNotThere) {
  EXPECT_EQ(read("layers", "1.zip"), "first");
  EXPECT_EQ(read("layers", "2.zip"), "NOT_FOUND");
  EXPECT_EQ(read("weights", "1.zip"), "NOT_FOUND");
  fs::remove(folder_ + "/one");
  EXPECT_NE(read("layers", "1.zip"), "first");
}

TEST_F(SharedFilesTest, WhoKeepsAFolderHearsOfEachReadOfItsFiles) {
  create(kTenant, "weights");
  read("weights", "1.zip");
  read("layers", "2.zip");
  EXPECT_THAT(shown_, ElementsAre());
  read("layers", "1.zip");
  read("layers", "1.zip");
  EXPECT_THAT(shown_, ElementsAre("7 layers", "7 layers"));
}

}  // namespace
}  // namespace lambent::volumes
