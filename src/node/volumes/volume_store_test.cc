#include "node/volumes/volume_store.h"
#include "node/volumes/limits.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/crypto/crypto.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

constexpr TenantId kTenant{7};
constexpr TenantId kOther{8};

std::string digest_of(const std::string& content) {
  return crypto::to_hex(crypto::sha256(content));
}

// A store whose disk works when a test says so.
class VolumeStoreTest : public testing::Test {
 protected:
  VolumeStoreTest() {
    std::string name = testing::TempDir() + "/volumes.XXXXXX";
    folder_ = mkdtemp(name.data());
    start();
  }
  ~VolumeStoreTest() override {
    store_.reset();
    fs::remove_all(folder_);
  }

  // As after kill -9: what the disk has not done yet never happens.
  void start() {
    tasks_.clear();
    store_.reset();
    auto opened = VolumeStore::open(folder_, clock_, log_, [this](auto work, auto completion) {
      if (disk_is_full_) return false;
      tasks_.push_back({std::move(work), std::move(completion)});
      return true;
    });
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    store_ = std::move(*opened);
    store_->set_users({.functions = [this](TenantId, const std::string&) { return users_; },
                       .room = [this](TenantId tenant, Bytes more) -> Result<void> {
                         if (store_->used_by(tenant) + more <= room_) return {};
                         return Error{ErrorCode::kResourceExhausted, "no room"};
                       }});
  }
  void work() {
    while (!tasks_.empty()) {
      auto [work, completion] = std::move(tasks_.front());
      tasks_.pop_front();
      work();
      completion();
    }
  }

  Result<VolumeStatus> create(const std::string& name, TenantId tenant = kTenant) {
    Result<VolumeStatus> result = Error{ErrorCode::kInternal, "no answer"};
    store_->create_volume(tenant, name, [&](auto status) { result = std::move(status); });
    work();
    return result;
  }
  Result<VolumeStatus> remove(const std::string& name) {
    Result<VolumeStatus> result = Error{ErrorCode::kInternal, "no answer"};
    store_->remove_volume(kTenant, name, [&](auto status) { result = std::move(status); });
    work();
    return result;
  }
  static UploadKey key(const std::string& path, const std::string& content) {
    return {.tenant = kTenant,
            .volume = "weights",
            .path = path,
            .size = Bytes(content.size()),
            .sha256 = digest_of(content)};
  }
  Result<std::shared_ptr<VolumeUpload>> begin(const UploadKey& key, uint64_t offset = 0) {
    Result<std::shared_ptr<VolumeUpload>> result = Error{ErrorCode::kInternal, "no answer"};
    store_->begin_upload(key, Bytes(offset), [&](auto upload) { result = std::move(upload); });
    work();
    return result;
  }
  Result<UploadStatus> finish(const std::shared_ptr<VolumeUpload>& upload) {
    Result<UploadStatus> result = Error{ErrorCode::kInternal, "no answer"};
    upload->finish([&](auto status) { result = std::move(status); });
    work();
    return result;
  }
  Result<UploadStatus> put(const UploadKey& key, const std::string& content, uint64_t offset = 0) {
    auto upload = begin(key, offset);
    if (!upload.ok()) return upload.error();
    (*upload)->write(content);
    return finish(*upload);
  }
  Result<UploadStatus> put(const std::string& path, const std::string& content) {
    return put(key(path, content), content);
  }
  UploadStatus progress(const UploadKey& key) {
    Result<UploadStatus> result = Error{ErrorCode::kInternal, "no answer"};
    store_->find_upload(key, [&](auto status) { result = std::move(status); });
    work();
    EXPECT_TRUE(result.ok()) << to_string(result.error());
    return *result;
  }
  Result<RemovedFiles> remove_files(const std::string& path) {
    Result<RemovedFiles> result = Error{ErrorCode::kInternal, "no answer"};
    store_->remove_files(kTenant, "weights", path, [&](auto gone) { result = std::move(gone); });
    work();
    return result;
  }
  std::string seen(const std::string& path) {
    std::ifstream file(*store_->mounted_folder(kTenant, "weights") + "/" + path);
    return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "(none)";
  }
  VolumeStatus status() { return store_->list_volumes(kTenant).at(0); }
  size_t contents() {
    const fs::path tree = *store_->mounted_folder(kTenant, "weights");
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(tree.parent_path() / "contents")) {
      count += entry.exists() ? 1 : 0;
    }
    return count;
  }

  std::string folder_;
  FakeClock clock_;
  NullLogSink log_;
  bool disk_is_full_ = false;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> tasks_;
  std::vector<std::string> users_;
  Bytes room_ = Bytes::gib(1);
  std::unique_ptr<VolumeStore> store_;
};

TEST_F(VolumeStoreTest, ShowsAFileOnceItIsWhole) {
  ASSERT_TRUE(create("weights").ok());
  auto upload = begin(key("models/a.bin", "hello"));
  ASSERT_TRUE(upload.ok());
  (*upload)->write("hel");
  work();
  EXPECT_EQ(seen("models/a.bin"), "(none)");
  (*upload)->write("lo");
  const auto done = finish(*upload);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_TRUE(done->complete);
  EXPECT_EQ(done->file, (VolumeFile{"models/a.bin", Bytes(5), digest_of("hello")}));
  EXPECT_EQ(seen("models/a.bin"), "hello");
  EXPECT_EQ(status(), (VolumeStatus{"weights", 1, Bytes(5), Bytes(), status().version}));
}

TEST_F(VolumeStoreTest, HasAllFilesAgainAfterAKill) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "one").ok());
  ASSERT_TRUE(put("b/c", "one").ok());
  ASSERT_TRUE(put("b/d", "two").ok());
  const auto before = *store_->list_files(kTenant, "weights", "", "", 100);
  const std::string version = status().version;
  start();
  EXPECT_EQ(*store_->list_files(kTenant, "weights", "", "", 100), before);
  EXPECT_EQ(status(), (VolumeStatus{"weights", 3, Bytes(6), Bytes(), version}));
  EXPECT_EQ(contents(), 2u);
}

TEST_F(VolumeStoreTest, GoesOnWithAnUploadThatItsClientBrokeOff) {
  ASSERT_TRUE(create("weights").ok());
  const UploadKey hello = key("a", "hello");
  {
    auto upload = begin(hello);
    (*upload)->write("hel");
  }
  work();
  EXPECT_EQ(progress(hello), (UploadStatus{Bytes(3), false, {}}));
  const auto done = put(hello, "lo", 3);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(seen("a"), "hello");
}

TEST_F(VolumeStoreTest, GoesOnWithAnUploadAfterItsOwnKill) {
  ASSERT_TRUE(create("weights").ok());
  const UploadKey hello = key("a", "hello");
  {
    auto upload = begin(hello);
    (*upload)->write("hel");
  }
  work();
  start();
  EXPECT_EQ(status().unfinished, Bytes(3));
  EXPECT_EQ(progress(hello).offset, Bytes(3));
  const auto done = put(hello, "lo", 3);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(seen("a"), "hello");
  EXPECT_EQ(status().unfinished, Bytes());
}

TEST_F(VolumeStoreTest, RefusesToGoOnElsewhereThanItIs) {
  ASSERT_TRUE(create("weights").ok());
  EXPECT_EQ(begin(key("a", "hello"), 3).error().code, ErrorCode::kAborted);
  EXPECT_EQ(status().unfinished, Bytes());
  EXPECT_EQ(begin(key("a", "hello"), 6).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(VolumeStoreTest, DropsWhatHasAnotherDigest) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "older").ok());
  const UploadKey hello = key("a", "hello");
  const auto done = put(hello, "hellO");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kAborted);
  EXPECT_EQ(seen("a"), "older");
  EXPECT_EQ(progress(hello).offset, Bytes()) << "the next try begins again";
  EXPECT_EQ(status().unfinished, Bytes());
}

TEST_F(VolumeStoreTest, TakesAContentThatItHasByItsDigest) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "hello").ok());
  const UploadKey again = key("b", "hello");
  EXPECT_EQ(progress(again), (UploadStatus{Bytes(5), false, {}}));
  const auto done = put(again, "", 5);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_TRUE(done->complete);
  EXPECT_EQ(seen("b"), "hello");
  EXPECT_EQ(contents(), 1u);
  EXPECT_TRUE(progress(again).complete);
}

TEST_F(VolumeStoreTest, TakesAFileOfUnknownSizeAndDigestAsOneThatEndsWhereItEnds) {
  ASSERT_TRUE(create("weights").ok());
  UploadKey plain{.tenant = kTenant, .volume = "weights", .path = "a", .size = {}, .sha256 = {}};
  const auto done = put(plain, "hello");
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->file.sha256, digest_of("hello"));
  { (void)(*begin(plain))->write("half"); }
  work();
  EXPECT_EQ(status().unfinished, Bytes()) << "it could not go on later, so nothing of it stays";
}

TEST_F(VolumeStoreTest, ReplacesAFileWhileWhoHasItOpenKeepsWhatItHad) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "older").ok());
  std::ifstream open(*store_->mounted_folder(kTenant, "weights") + "/a");
  ASSERT_TRUE(put("a", "newer").ok());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(open), {}), "older");
  EXPECT_EQ(seen("a"), "newer");
  EXPECT_EQ(contents(), 1u) << "the old content is gone from the disk";
}

TEST_F(VolumeStoreTest, RemovesFilesFoldersAndContentsThatNoFileHas) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "same").ok());
  ASSERT_TRUE(put("b/c", "same").ok());
  ASSERT_TRUE(put("b/d/e", "other").ok());
  const auto gone = remove_files("b");
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ(gone->files, 2u);
  EXPECT_EQ(seen("a"), "same");
  EXPECT_EQ(contents(), 1u);
  EXPECT_FALSE(fs::exists(*store_->mounted_folder(kTenant, "weights") + "/b"));
  EXPECT_EQ(remove_files("b").error().code, ErrorCode::kNotFound);
}

TEST_F(VolumeStoreTest, DoesNotRemoveAVolumeThatFunctionsMount) {
  ASSERT_TRUE(create("weights").ok());
  users_ = {"detector"};
  const auto refused = remove("weights");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("detector"), std::string::npos);
  users_.clear();
  const std::string tree = *store_->mounted_folder(kTenant, "weights");
  EXPECT_TRUE(remove("weights").ok());
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_EQ(remove("weights").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(create("weights").ok()) << "its name is free again";
}

TEST_F(VolumeStoreTest, KeepsTenantsApart) {
  ASSERT_TRUE(create("weights").ok());
  EXPECT_FALSE(store_->mounted_folder(kOther, "weights").ok());
  EXPECT_TRUE(store_->list_volumes(kOther).empty());
  ASSERT_TRUE(create("weights", kOther).ok());
  ASSERT_TRUE(put("a", "hello").ok());
  EXPECT_EQ(store_->used_by(kTenant), Bytes(5));
  EXPECT_EQ(store_->used_by(kOther), Bytes());
  store_->forget_tenant(kTenant);
  work();
  EXPECT_TRUE(store_->list_volumes(kTenant).empty());
  EXPECT_EQ(store_->list_volumes(kOther).size(), 1u);
}

TEST_F(VolumeStoreTest, RefusesWhatTheQuotaHasNoRoomForBeforeItComes) {
  ASSERT_TRUE(create("weights").ok());
  room_ = Bytes(8);
  ASSERT_TRUE(put("a", "hello").ok());
  EXPECT_EQ(put("b", "world").error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(put(key("c", "hello"), "", 5).ok()) << "the content is there already";
  EXPECT_TRUE(put("d", "two").ok());
  UploadKey plain{.tenant = kTenant, .volume = "weights", .path = "e", .size = {}, .sha256 = {}};
  EXPECT_EQ(put(plain, "x").error().code, ErrorCode::kResourceExhausted);
}

TEST_F(VolumeStoreTest, LeavesSomeOfTheDiskToOthers) {
  ASSERT_TRUE(create("weights").ok());
  auto earlier = begin(key("a", "hello"));
  (*earlier)->write("hel");
  earlier = Error{ErrorCode::kInternal, "its client is gone"};
  work();
  store_->set_left_free(Bytes::gib(1 << 20));
  const auto refused = begin(key("b", "world"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kStorageFull) << "before anything is sent";
  EXPECT_EQ(store_->used_by(kTenant), Bytes(3)) << "of the first";
  // One that does not say its size is told of it by its first bytes, and leaves nothing.
  UploadKey plain{.tenant = kTenant, .volume = "weights", .path = "c", .size = {}, .sha256 = {}};
  EXPECT_EQ(put(plain, "x").error().code, ErrorCode::kStorageFull);
  work();
  EXPECT_EQ(store_->used_by(kTenant), Bytes(3));
  store_->set_left_free(Bytes());
  EXPECT_EQ(progress(key("a", "hello")).offset, Bytes(3));
  EXPECT_TRUE(put(key("a", "hello"), "lo", 3)->complete);
}

TEST_F(VolumeStoreTest, TakesNoMoreThanTheFileHas) {
  ASSERT_TRUE(create("weights").ok());
  EXPECT_EQ(put(key("a", "hello"), "hello!").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(seen("a"), "(none)");
}

TEST_F(VolumeStoreTest, HoldsASenderBackThatIsFasterThanTheDisk) {
  ASSERT_TRUE(create("weights").ok());
  const std::string content(static_cast<size_t>((limits::kVolumeAhead * 2).count), 'x');
  auto upload = begin(key("a", content));
  bool has_room = false;
  (*upload)->on_room([&] { has_room = true; });
  EXPECT_FALSE((*upload)->write(content));
  EXPECT_FALSE(has_room);
  work();
  EXPECT_TRUE(has_room);
  EXPECT_TRUE(finish(*upload)->complete);
}

TEST_F(VolumeStoreTest, EndsAnUploadThatAnotherOfTheSameFileTakesOver) {
  ASSERT_TRUE(create("weights").ok());
  const UploadKey hello = key("a", "hello");
  auto first = begin(hello);
  (*first)->write("hel");
  work();
  auto second = begin(hello);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE((*first)->failure());
  EXPECT_EQ((*first)->failure()->code, ErrorCode::kAborted);
  (*first)->write("XX");
  first->reset();
  (*second)->write("hello");
  EXPECT_TRUE(finish(*second)->complete);
  EXPECT_EQ(seen("a"), "hello");
}

TEST_F(VolumeStoreTest, EndsUploadsToAVolumeThatIsRemoved) {
  ASSERT_TRUE(create("weights").ok());
  auto upload = begin(key("a", "hello"));
  (*upload)->write("hello");
  ASSERT_TRUE(remove("weights").ok());
  EXPECT_EQ(finish(*upload).error().code, ErrorCode::kNotFound);
}

TEST_F(VolumeStoreTest, ForgetsUploadsThatDidNotGoOnForADay) {
  ASSERT_TRUE(create("weights").ok());
  { (*begin(key("a", "hello")))->write("hel"); }
  work();
  clock_.advance(limits::kUnfinishedUploadAge + seconds(1));
  ASSERT_TRUE(put("b", "other").ok());
  EXPECT_EQ(status().unfinished, Bytes());
  EXPECT_EQ(progress(key("a", "hello")).offset, Bytes());
}

TEST_F(VolumeStoreTest, RefusesMoreTransfersThanAWorkerHas) {
  ASSERT_TRUE(create("weights").ok());
  std::vector<std::shared_ptr<VolumeUpload>> uploads;
  for (size_t i = 0; i < limits::kVolumeTransfers; ++i) {
    auto upload = begin(key("f" + std::to_string(i), "hello"));
    ASSERT_TRUE(upload.ok());
    uploads.push_back(*upload);
  }
  EXPECT_EQ(begin(key("one-more", "hello")).error().code, ErrorCode::kResourceExhausted);
  uploads.pop_back();
  EXPECT_TRUE(begin(key("one-more", "hello")).ok());
}

TEST_F(VolumeStoreTest, SaysSoWhenTheDiskIsBehind) {
  ASSERT_TRUE(create("weights").ok());
  disk_is_full_ = true;
  EXPECT_EQ(begin(key("a", "hello")).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(create("more").error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(store_->list_volumes(kTenant).size(), 1u);
}

TEST_F(VolumeStoreTest, ReadsAFileAsItWasWhenItWasOpened) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "hello").ok());
  std::shared_ptr<VolumeDownload> download;
  store_->open_file(kTenant, "weights", "a", [&](auto opened) { download = *opened; });
  work();
  ASSERT_NE(download, nullptr);
  ASSERT_TRUE(put("a", "other").ok());
  std::string read;
  download->read(Bytes(1), Bytes(3), [&](auto bytes) { read = *bytes; });
  work();
  EXPECT_EQ(read, "ell");
  EXPECT_EQ(download->file().sha256, digest_of("hello"));
}

TEST_F(VolumeStoreTest, RestoresContentsThatAPowerFailureTook) {
  ASSERT_TRUE(create("weights").ok());
  ASSERT_TRUE(put("a", "hello").ok());
  fs::remove(folder_ + "/7/weights/contents/" + digest_of("hello"));
  std::ofstream(folder_ + "/7/weights/contents/" + std::string(64, 'f')) << "of no file";
  start();
  EXPECT_EQ(contents(), 1u);
  EXPECT_TRUE(progress(key("a", "hello")).complete);
}

TEST_F(VolumeStoreTest, IgnoresLinksThatSomeonePutIntoItsFolders) {
  ASSERT_TRUE(create("weights").ok());
  const std::string tree = *store_->mounted_folder(kTenant, "weights");
  fs::create_symlink("/etc/passwd", tree + "/link");
  fs::create_directory_symlink("/etc", tree + "/etc");
  start();
  EXPECT_EQ(status().files, 0u);
}

}  // namespace
}  // namespace lambent::volumes
