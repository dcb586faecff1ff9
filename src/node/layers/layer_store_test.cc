#include "node/layers/layer_store.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "core/crypto/crypto.h"

namespace lambent::layers {
namespace {

namespace fs = std::filesystem;

constexpr TenantId kTenant{7};
constexpr TenantId kOther{8};

using Files = std::map<std::string, std::string>;  // contents by path

// A store whose disk works when a test says so.
class LayerStoreTest : public testing::Test {
 protected:
  LayerStoreTest() {
    std::string name = testing::TempDir() + "/layers.XXXXXX";
    folder_ = mkdtemp(name.data());
    start();
  }
  ~LayerStoreTest() override {
    store_.reset();
    fs::remove_all(folder_);
  }

  // As after kill -9: what the disk has not done yet never happens.
  void start() {
    tasks_.clear();
    store_.reset();
    auto opened = open(folder_ + "/state");
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    store_ = std::move(*opened);
    store_->set_users({.functions = [this](TenantId, const std::string&) { return users_; },
                       .room = [this](TenantId, Bytes more) -> Result<void> {
                         if (more <= room_) return {};
                         return Error{ErrorCode::kResourceExhausted, "no room"};
                       }});
  }
  Result<std::unique_ptr<LayerStore>> open(const std::string& folder) {
    return LayerStore::open(
        folder, clock_, log_,
        [this](auto work, auto completion) {
          if (disk_is_busy_) return false;
          tasks_.push_back({std::move(work), std::move(completion)});
          return true;
        },
        is_node_);
  }
  // How many tasks it did.
  int work() {
    int tasks = 0;
    for (; !tasks_.empty(); ++tasks) {
      auto [work, completion] = std::move(tasks_.front());
      tasks_.pop_front();
      work();
      completion();
    }
    return tasks;
  }

  std::string zip_of(const Files& files) {
    const fs::path source = folder_ + "/source";
    fs::remove_all(source);
    fs::create_directories(source);
    for (const auto& [path, content] : files) {
      fs::create_directories((source / path).parent_path());
      std::ofstream(source / path) << content;
    }
    auto zip = archive::make_zip(source);
    EXPECT_TRUE(zip.ok()) << to_string(zip.error());
    return base64_encode(*zip);
  }
  Result<LayerVersion> publish(const std::string& name, const std::string& zip,
                               TenantId tenant = kTenant) {
    Result<LayerVersion> result = Error{ErrorCode::kInternal, "no answer"};
    store_->publish_layer(tenant,
                          {.name = name,
                           .description = "it",
                           .license = "MIT",
                           .runtimes = {"python3.11"},
                           .zip_base64 = zip},
                          [&](auto version) { result = std::move(version); });
    work();
    return result;
  }
  Result<LayerVersion> publish(const std::string& name, const Files& files,
                               TenantId tenant = kTenant) {
    return publish(name, zip_of(files), tenant);
  }
  Result<LayerVersion> remove(const LayerReference& layer) {
    Result<LayerVersion> result = Error{ErrorCode::kInternal, "no answer"};
    store_->remove_layer(kTenant, layer, [&](auto version) { result = std::move(version); });
    work();
    return result;
  }
  Result<Mounts> compose(const Layers& layers, TenantId tenant = kTenant) {
    Result<Mounts> result = Error{ErrorCode::kInternal, "no answer"};
    store_->compose_layers(tenant, layers, [&](auto mounts) { result = std::move(mounts); });
    work();
    return result;
  }
  // What a sandbox with these mounts reads.
  std::string read(const Mounts& mounts, const std::string& path) {
    for (const Mount& mount : mounts) {
      if (!path.starts_with(mount.at + "/")) continue;
      const auto folder = store_->mounted_folder(kTenant, mount);
      if (!folder.ok()) return to_string(folder.error());
      std::ifstream file(*folder + path.substr(mount.at.size()));
      if (!file) return "(none)";
      return {std::istreambuf_iterator<char>(file), {}};
    }
    return "(no mount)";
  }

  std::string folder_;
  FakeClock clock_;
  NullLogSink log_;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> tasks_;
  bool disk_is_busy_ = false;
  bool is_node_ = false;  // of a cluster
  std::vector<std::string> users_;
  Bytes room_ = Bytes::mib(100);
  std::unique_ptr<LayerStore> store_;
};

TEST_F(LayerStoreTest, OfANameUnderWhichNothingWasPublishedNothingStays) {
  EXPECT_FALSE(publish("tools", "no zip").ok());
  EXPECT_FALSE(fs::exists(folder_ + "/state/7/tools"));
  disk_is_busy_ = true;
  EXPECT_FALSE(publish("tools", Files{{"python/a.py", "1"}}).ok());
  disk_is_busy_ = false;
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "1"}}).ok());
  ASSERT_TRUE(remove({"tools", 1}).ok());
  EXPECT_FALSE(publish("tools", "no zip").ok());
  const auto next = publish("tools", Files{{"python/a.py", "2"}});
  ASSERT_TRUE(next.ok()) << to_string(next.error());
  EXPECT_EQ(next->reference.version, 3u) << "numbers are given once";
}

TEST_F(LayerStoreTest, EachPublicationIsTheNextVersion) {
  const auto first = publish("tools", Files{{"python/a.py", "1"}});
  ASSERT_TRUE(first.ok()) << to_string(first.error());
  EXPECT_EQ(first->reference, (LayerReference{"tools", 1}));
  EXPECT_EQ(first->unpacked, Bytes(1));
  EXPECT_EQ(publish("tools", Files{{"python/a.py", "2"}})->reference.version, 2);
  EXPECT_EQ(publish("other", Files{{"bin/x", "2"}})->reference.version, 1);
  const auto versions = store_->list_layer_versions(kTenant, "tools");
  ASSERT_EQ(versions.size(), 2);
  EXPECT_EQ(versions[0].reference.version, 2) << "the latest first";
  const auto all = store_->list_layers(kTenant);
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[1].reference, (LayerReference{"tools", 2}));
  EXPECT_EQ(store_->used_by(kTenant), Bytes(3));
}

TEST_F(LayerStoreTest, ARestartKeepsThemAndUsesNoNumberTwice) {
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "1"}}).ok());
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "2"}}).ok());
  const auto mounts = compose({{"tools", 1}});
  ASSERT_TRUE(remove({"tools", 2}).ok());
  start();
  const auto kept = store_->find_layer(kTenant, {"tools", 1});
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->description, "it");
  EXPECT_EQ(kept->license, "MIT");
  EXPECT_EQ(kept->runtimes, std::vector<std::string>{"python3.11"});
  EXPECT_EQ(read(*mounts, "/opt/python/a.py"), "1") << "what functions see is there again";
  EXPECT_EQ(publish("tools", Files{{"python/a.py", "3"}})->reference.version, 3);
}

TEST_F(LayerStoreTest, APublicationThatTheWorkerDidNotSurviveIsNoVersion) {
  const std::string zip = zip_of({{"python/a.py", "1"}});
  store_->publish_layer(kTenant, {.name = "tools", .zip_base64 = zip}, [](const auto&) {});
  start();
  EXPECT_TRUE(store_->list_layers(kTenant).empty());
  fs::create_directories(folder_ + "/state/7/tools/1/content/python");
  start();
  EXPECT_TRUE(store_->list_layers(kTenant).empty());
  EXPECT_FALSE(fs::exists(folder_ + "/state/7/tools/1"));
}

TEST_F(LayerStoreTest, LaterLayersLieOverEarlierOnes) {
  ASSERT_TRUE(publish("base", Files{{"python/a.py", "base"},
                                    {"python/b.py", "base"},
                                    {"lib/folder/file", "base"},
                                    {"lib/thing", "file"}})
                  .ok());
  ASSERT_TRUE(
      publish("top", Files{{"python/b.py", "top"}, {"lib/folder", "file"}, {"lib/thing/x", "top"}})
          .ok());
  const auto both = compose({{"base", 1}, {"top", 1}});
  ASSERT_TRUE(both.ok()) << to_string(both.error());
  EXPECT_EQ(both->size(), 2);
  EXPECT_TRUE(validate(*both).ok());
  EXPECT_EQ(read(*both, "/opt/python/a.py"), "base");
  EXPECT_EQ(read(*both, "/opt/python/b.py"), "top");
  EXPECT_EQ(read(*both, "/opt/lib/folder"), "file") << "a file in place of a folder";
  EXPECT_EQ(read(*both, "/opt/lib/thing/x"), "top") << "a folder in place of a file";
  const auto other = compose({{"top", 1}, {"base", 1}});
  EXPECT_EQ(read(*other, "/opt/python/b.py"), "base");
  EXPECT_EQ(read(*other, "/opt/lib/folder/file"), "base");
}

TEST_F(LayerStoreTest, ALinkOfOneLayerLeadsNoOtherAstray) {
  const fs::path source = folder_ + "/linked";
  fs::create_directories(source / "lib");
  fs::create_directories(source / "python");
  std::ofstream(source / "lib/x") << "of the first";
  fs::create_symlink("../lib", source / "python/link");
  const auto zip = archive::make_zip(source);
  ASSERT_TRUE(zip.ok()) << to_string(zip.error());
  ASSERT_TRUE(publish("first", base64_encode(*zip)).ok());
  ASSERT_TRUE(publish("second", Files{{"python/link/x", "of the second"}}).ok());
  EXPECT_EQ(read(*compose({{"first", 1}}), "/opt/python/link/x"), "of the first");
  const auto both = compose({{"first", 1}, {"second", 1}});
  EXPECT_EQ(read(*both, "/opt/python/link/x"), "of the second");
  EXPECT_EQ(read(*both, "/opt/lib/x"), "of the first");
  EXPECT_EQ(read(*compose({{"second", 1}, {"first", 1}}), "/opt/python/link/x"), "of the first");
}

TEST_F(LayerStoreTest, ARemovedVersionIsKeptByTheFunctionsThatHaveIt) {
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "1"}}).ok());
  const auto mounts = compose({{"tools", 1}});
  users_ = {"f"};
  ASSERT_TRUE(remove({"tools", 1}).ok());
  EXPECT_EQ(remove({"tools", 1}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(compose({{"tools", 1}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read(*mounts, "/opt/python/a.py"), "1");
}

TEST_F(LayerStoreTest, WhatNoFunctionUsesGoesAfterAnHour) {
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "1"}}).ok());
  const auto mounts = compose({{"tools", 1}});
  ASSERT_TRUE(publish("other", Files{{"bin/x", "1"}}).ok());
  ASSERT_TRUE(compose({{"other", 1}}).ok());
  EXPECT_EQ(read(*mounts, "/opt/python/a.py"), "1") << "a deployment may be under way";
  clock_.advance(std::chrono::hours(2));
  users_ = {"f"};
  ASSERT_TRUE(compose({{"other", 1}}).ok());
  EXPECT_EQ(read(*mounts, "/opt/python/a.py"), "1") << "a function uses it";
  users_.clear();
  ASSERT_TRUE(compose({{"other", 1}}).ok());
  EXPECT_EQ(store_->mounted_folder(kTenant, mounts->front()).error().code, ErrorCode::kNotFound);
  const auto again = compose({{"tools", 1}});
  EXPECT_EQ(read(*again, "/opt/python/a.py"), "1");
}

TEST_F(LayerStoreTest, TenantsHaveTheirOwn) {
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "1"}}).ok());
  const auto mounts = compose({{"tools", 1}});
  EXPECT_TRUE(store_->list_layers(kOther).empty());
  EXPECT_EQ(store_->find_layer(kOther, {"tools", 1}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(compose({{"tools", 1}}, kOther).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(store_->mounted_folder(kOther, mounts->front()).ok());
  ASSERT_TRUE(publish("tools", Files{{"python/a.py", "2"}}, kOther).ok());
  store_->forget_tenant(kTenant);
  work();
  EXPECT_TRUE(store_->list_layers(kTenant).empty());
  EXPECT_FALSE(fs::exists(folder_ + "/state/7"));
  EXPECT_EQ(store_->list_layers(kOther).size(), 1);
}

TEST_F(LayerStoreTest, WhatCannotLieUnderOptIsRefusedAndLeavesNothing) {
  for (const Files& files :
       {Files{{"file", "x"}}, Files{{"lambent/x", "x"}}, Files{{"a:b/x", "x"}}}) {
    const auto refused = publish("bad", files);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(publish("bad", std::string("no zip")).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(publish("../bad", Files{{"bin/x", "x"}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(store_->list_layers(kTenant).empty());
  EXPECT_FALSE(fs::exists(folder_ + "/state/7/bad"));
}

TEST_F(LayerStoreTest, QuotasAndABusyDiskAreSaidSo) {
  const std::string zip = zip_of({{"bin/x", "x"}});
  room_ = Bytes(10);
  EXPECT_EQ(publish("tools", zip).error().code, ErrorCode::kResourceExhausted);
  room_ = Bytes::mib(1);
  disk_is_busy_ = true;
  EXPECT_EQ(publish("tools", zip).error().code, ErrorCode::kResourceExhausted);
  disk_is_busy_ = false;
  EXPECT_EQ(publish("tools", zip)->reference.version, 1);
}

// What one node composed, composed by another one of its packages.
class CopiedLayersTest : public LayerStoreTest {
 protected:
  CopiedLayersTest() {
    is_node_ = true;
    start();
    other_ = std::move(*open(folder_ + "/other"));
    EXPECT_TRUE(publish("low", Files{{"python/a.py", "1"}, {"lib/x", "low"}}).ok());
    EXPECT_TRUE(publish("high", Files{{"lib/x", "high"}}).ok());
    mounts_ = *compose({{"low", 1}, {"high", 1}});
  }
  ~CopiedLayersTest() override { other_.reset(); }

  std::string volume() const { return mounts_.front().volume; }
  std::vector<std::string> zips() const {
    std::vector<std::string> places;
    const auto folders = store_->packages(kTenant);
    for (const auto& file : folders.at(0).files) places.push_back(file.place);
    return places;
  }
  Result<void> copy(const std::vector<std::string>& zips, Bytes room = Bytes::mib(1)) {
    Result<void> result = Error{ErrorCode::kInternal, "no answer"};
    other_->compose_copy(
        kTenant, volume(), zips,
        [&](Bytes more) -> Result<void> {
          asked_ = more;
          if (more <= room) return {};
          return Error{ErrorCode::kResourceExhausted, "no room"};
        },
        [&](auto copied) { result = std::move(copied); });
    work();
    return result;
  }
  static std::string said(const Result<void>& result) {
    return result.ok() ? "" : to_string(result.error());
  }
  void restart_other() {
    other_.reset();
    other_ = std::move(*open(folder_ + "/other"));
  }

  std::unique_ptr<LayerStore> other_;
  Mounts mounts_;
  Bytes asked_;
};

TEST_F(CopiedLayersTest, PackagesAreToldInTheOrderOfTheLayersAndStayAfterVersionsAndARestart) {
  ASSERT_TRUE(remove({"low", 1}).ok());
  start();
  const auto folders = store_->packages(kTenant);
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(folders[0].name, volume());
  ASSERT_EQ(folders[0].files.size(), 2u);
  EXPECT_TRUE(folders[0].files[0].file.path.starts_with("1-"));
  for (const auto& file : folders[0].files) {
    const auto bytes = read_file(file.place, 1 << 20);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(crypto::to_hex(crypto::sha256(*bytes)), file.file.sha256);
    EXPECT_EQ(Bytes(bytes->size()), file.file.size);
  }
  EXPECT_TRUE(store_->packages(kOther).empty());
}

TEST_F(CopiedLayersTest, TheyShowTheSameElsewhereAndAreKnownAfterARestart) {
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
  ASSERT_EQ(said(copy(zips())), "");
  EXPECT_EQ(asked_, Bytes(8));
  EXPECT_TRUE(other_->is_here(kTenant, volume()));
  restart_other();
  EXPECT_EQ(other_->size_of_copy(kTenant, volume()), Bytes(8));
  store_ = std::move(other_);
  EXPECT_EQ(read(mounts_, "/opt/lib/x"), "high");
  EXPECT_EQ(read(mounts_, "/opt/python/a.py"), "1");
}

TEST_F(CopiedLayersTest, WhatIsComposedOfOwnLayersTooIsNoCopyAlsoAfterARestart) {
  ASSERT_EQ(said(copy(zips())), "");
  std::swap(store_, other_);
  ASSERT_TRUE(publish("low", Files{{"python/a.py", "1"}, {"lib/x", "low"}}).ok());
  ASSERT_TRUE(publish("high", Files{{"lib/x", "high"}}).ok());
  store_->compose_layers(kTenant, {{"low", 1}, {"high", 1}}, [](const auto&) {});
  // Its copy goes meanwhile.
  store_->remove_copy(kTenant, volume());
  work();
  EXPECT_EQ(read(mounts_, "/opt/lib/x"), "high");
  std::swap(store_, other_);
  restart_other();
  EXPECT_EQ(other_->size_of_copy(kTenant, volume()), Bytes());
  other_->remove_copies([](const VolumeName&) { return true; });
  work();
  EXPECT_TRUE(other_->is_here(kTenant, volume())) << "its function would have lost its layers";
}

TEST_F(CopiedLayersTest, PackagesThatAnotherNodeReadsAreNotCollected) {
  clock_.advance(std::chrono::minutes(50));
  store_->note_shown(kTenant, volume());
  clock_.advance(std::chrono::minutes(50));
  ASSERT_TRUE(remove({"low", 1}).ok());
  EXPECT_EQ(store_->packages(kTenant).size(), 1u);
  clock_.advance(std::chrono::minutes(50));
  ASSERT_TRUE(remove({"high", 1}).ok());
  EXPECT_TRUE(store_->packages(kTenant).empty());
}

TEST_F(CopiedLayersTest, OtherLayersThanTheDigestSaysAreRefused) {
  auto swapped = zips();
  std::swap(swapped[0], swapped[1]);
  for (const auto& wrong : {swapped, {zips()[0]}, {}}) {
    const auto copied = copy(wrong);
    ASSERT_FALSE(copied.ok());
    EXPECT_EQ(copied.error().code, ErrorCode::kDataLoss) << copied.error().message;
    EXPECT_FALSE(other_->is_here(kTenant, volume()));
  }
  std::ofstream(zips()[0], std::ios::app) << "more";
  EXPECT_FALSE(copy(zips()).ok());
}

TEST_F(CopiedLayersTest, WhereThereIsNoRoomNothingIsUnpacked) {
  const auto copied = copy(zips(), Bytes(7));
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().code, ErrorCode::kResourceExhausted) << copied.error().message;
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
  EXPECT_TRUE(copy(zips(), Bytes(8)).ok());
}

TEST_F(CopiedLayersTest, TheyAreCheckedAndUnpackedOnceForAllThatWait) {
  int rooms = 0;
  std::vector<std::string> told;
  for (int each = 0; each < 20; ++each) {
    other_->compose_copy(
        kTenant, volume(), zips(),
        [&](Bytes) -> Result<void> {
          ++rooms;
          return {};
        },
        [&](const Result<void>& copied) { told.push_back(said(copied)); });
  }
  EXPECT_TRUE(other_->is_composing(kTenant, volume()));
  EXPECT_EQ(work(), 2) << "one task checks the zips, and one unpacks them";
  EXPECT_EQ(rooms, 1);
  EXPECT_EQ(told, std::vector<std::string>(20));
  EXPECT_FALSE(other_->is_composing(kTenant, volume()));
}

TEST_F(CopiedLayersTest, WhoIsToldThatZipsAreOthersMayAskAgainAtOnce) {
  std::vector<std::string> told;
  const auto room = [](Bytes) -> Result<void> { return {}; };
  other_->compose_copy(kTenant, volume(), {}, room, [&](const Result<void>& wrong) {
    EXPECT_EQ(wrong.error().code, ErrorCode::kDataLoss);
    other_->compose_copy(kTenant, volume(), zips(), room,
                         [&](const Result<void>& copied) { told.push_back(said(copied)); });
  });
  other_->compose_copy(kTenant, volume(), zips(), room,
                       [&](const Result<void>& copied) { told.push_back(said(copied)); });
  work();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0], "") << "it waited for the wrong ones";
  EXPECT_EQ(told[1], "");
}

TEST_F(CopiedLayersTest, ACopyThatCouldNotBeComposedOfOwnLayersStaysACopy) {
  ASSERT_EQ(said(copy(zips())), "");
  std::swap(store_, other_);
  EXPECT_TRUE(publish("low", Files{{"python/a.py", "1"}, {"lib/x", "low"}}).ok());
  EXPECT_TRUE(publish("high", Files{{"lib/x", "high"}}).ok());
  // What the disk has of its own layer cannot be read.
  for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/other/7/low")) {
    if (entry.path().extension() == ".json") std::ofstream(entry.path()) << "{";
  }
  EXPECT_FALSE(compose({{"low", 1}, {"high", 1}}).ok());
  std::swap(store_, other_);
  EXPECT_GT(other_->size_of_copy(kTenant, volume()), Bytes(0));
  restart_other();
  EXPECT_GT(other_->size_of_copy(kTenant, volume()), Bytes(0));
  other_->remove_copy(kTenant, volume());
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
}

TEST_F(CopiedLayersTest, OnlyCopiesAreRemovedAsSuch) {
  ASSERT_EQ(said(copy(zips())), "");
  other_->remove_copy(kTenant, volume());
  store_->remove_copy(kTenant, volume());
  work();
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
  EXPECT_TRUE(store_->is_here(kTenant, volume()));
  restart_other();
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
  EXPECT_TRUE(copy(zips()).ok()) << "and come again";
}

TEST_F(CopiedLayersTest, OfCopiesThoseGoThatAreNotSparedAlsoAfterARestart) {
  ASSERT_EQ(said(copy(zips())), "");
  restart_other();
  std::vector<VolumeName> seen;
  other_->remove_copies([&](const VolumeName& each) {
    seen.push_back(each);
    return false;
  });
  EXPECT_EQ(seen, (std::vector<VolumeName>{{kTenant, volume()}}));
  EXPECT_TRUE(other_->is_here(kTenant, volume()));
  other_->remove_copies([](const VolumeName&) { return true; });
  store_->remove_copies([](const VolumeName&) { return true; });
  work();
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
  EXPECT_TRUE(store_->is_here(kTenant, volume())) << "it is this node's own";
}

TEST_F(CopiedLayersTest, UnderItsNameACopyIsWholeOrNotThereHoweverItsRemovalIsCutOff) {
  ASSERT_EQ(said(copy(zips())), "");
  const fs::path composed = folder_ + "/other/7/.composed";
  const std::string digest = volume().substr(volume_of_layers("").size());
  OwnedFd seen(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(seen.get(), composed.c_str(), IN_MOVED_FROM | IN_DELETE), 0);
  other_->remove_copy(kTenant, volume());
  work();
  std::vector<std::string> gone;
  alignas(inotify_event) std::array<char, 4096> events{};
  const ssize_t count = ::read(seen.get(), events.data(), events.size());
  for (ssize_t at = 0; at < count;) {
    const auto* event = reinterpret_cast<const inotify_event*>(&events.at(at));
    gone.emplace_back((event->mask & IN_DELETE) != 0 ? "deleted " : "moved ");
    gone.back() += event->name;
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_EQ(gone, (std::vector<std::string>{"moved " + digest, "deleted " + digest + ".copied",
                                            "deleted " + digest + ".removed"}));
  // A worker that was killed after the first of these, and one that was killed while it composed.
  const std::string another(digest.size(), 'a');
  fs::create_directories(composed / (digest + ".removed") / "lib");
  std::ofstream(composed / (digest + ".copied")) << "8";
  fs::create_directories(composed / (another + ".from") / "0");
  std::ofstream(composed / (another + ".copied")) << "8";
  restart_other();
  EXPECT_TRUE(fs::is_empty(composed));
  EXPECT_FALSE(other_->is_here(kTenant, volume()));
  EXPECT_TRUE(copy(zips()).ok()) << "and come again";
}

TEST_F(CopiedLayersTest, OneWhoseSizeCannotBeWrittenIsNotThereAfterARestartEither) {
  const std::string digest = volume().substr(volume_of_layers("").size());
  const std::string size = folder_ + "/other/7/.composed/" + digest + ".copied";
  fs::create_directories(size + "/in the way");
  EXPECT_FALSE(copy(zips()).ok());
  restart_other();
  EXPECT_FALSE(other_->is_here(kTenant, volume())) << "as this node's own it would stay";
  EXPECT_FALSE(fs::exists(size));
  EXPECT_TRUE(copy(zips()).ok());
}

TEST_F(CopiedLayersTest, PackagesWithoutWhatWasComposedGoWithTheNextStart) {
  const fs::path state = folder_ + "/state/7";
  for (const auto& entry : fs::directory_iterator(state / ".composed")) fs::remove_all(entry);
  fs::create_directories(folder_ + "/state/9.removed/tools");
  start();
  EXPECT_TRUE(fs::is_empty(state / ".packages"));
  EXPECT_TRUE(store_->packages(kTenant).empty());
  EXPECT_FALSE(fs::exists(folder_ + "/state/9.removed"));
}

class LayersOfBeforeTest : public CopiedLayersTest {
 protected:
  // Published and composed by a worker that is in no cluster; then it is a node.
  Mounts composed_before(const Files& files) {
    is_node_ = false;
    fs::remove_all(folder_ + "/state");
    start();
    EXPECT_TRUE(publish("low", files).ok());
    EXPECT_TRUE(publish("high", Files{{"lib/x", "high"}}).ok());
    mounts_ = *compose({{"low", 1}, {"high", 1}});
    is_node_ = true;
    start();
    return mounts_;
  }
  std::string of_other(const std::string& path) {
    std::swap(store_, other_);
    const std::string content = read(mounts_, path);
    std::swap(store_, other_);
    return content;
  }
};

TEST_F(LayersOfBeforeTest, ArePackedWhenTheWorkerIsANodeAndShowTheSameElsewhere) {
  composed_before({{"python/a.py", "1"}, {"lib/x", "low"}, {"python/__pycache__/a.pyc", "old"}});
  EXPECT_TRUE(store_->packages(kTenant).empty());
  work();
  ASSERT_EQ(store_->packages(kTenant).size(), 1u);
  ASSERT_EQ(zips().size(), 1u);
  EXPECT_EQ(said(copy(zips())), "");
  EXPECT_EQ(of_other("/opt/python/a.py"), "1");
  EXPECT_EQ(of_other("/opt/lib/x"), "high");
  // They are packed once.
  start();
  EXPECT_EQ(work(), 0);
  EXPECT_EQ(store_->packages(kTenant).size(), 1u);
}

TEST_F(LayersOfBeforeTest, ArePackedAlsoWhereTheirFunctionComesAfterwards) {
  composed_before({{"lib/y", "low"}});
  fs::remove_all(folder_ + "/state/" + std::to_string(kTenant.value) + "/.composed");
  start();
  ASSERT_TRUE(compose({{"low", 1}, {"high", 1}}).ok());
  EXPECT_EQ(said(copy(zips())), "");
  EXPECT_EQ(of_other("/opt/lib/y"), "low");
}

TEST_F(LayersOfBeforeTest, WhatAZipWouldLeaveOutIsNotPacked) {
  composed_before({{"python/a.py", "1"}});
  const auto folder = store_->mounted_folder(kTenant, mounts_.back());
  ASSERT_TRUE(folder.ok());
  fs::create_directories(*folder + "/venv");
  std::ofstream(*folder + "/venv/pyvenv.cfg") << "home = /usr";
  work();
  EXPECT_TRUE(store_->packages(kTenant).empty());
  // Nor is it tried at each deployment.
  store_->compose_layers(kTenant, {{"low", 1}, {"high", 1}}, [](const auto&) {});
  EXPECT_EQ(work(), 1) << "only what is composed is looked at";
}

TEST_F(LayersOfBeforeTest, SeveralArePackedOneAfterTheOther) {
  is_node_ = false;
  fs::remove_all(folder_ + "/state");
  start();
  ASSERT_TRUE(publish("low", Files{{"lib/x", "low"}}).ok());
  ASSERT_TRUE(publish("high", Files{{"lib/x", "high"}}).ok());
  ASSERT_TRUE(compose({{"low", 1}}).ok());
  ASSERT_TRUE(compose({{"high", 1}}).ok());
  is_node_ = true;
  start();
  EXPECT_EQ(tasks_.size(), 1u) << "others wait for the same thread";
  EXPECT_EQ(work(), 2);
  EXPECT_EQ(store_->packages(kTenant).size(), 2u);
}

TEST_F(LayersOfBeforeTest, AnotherZipDoesNotPassForOneThatWasPackedAgain) {
  composed_before({{"lib/y", "low"}});
  work();
  // Of two zips neither may be the whole.
  std::vector<std::string> two = zips();
  two.push_back(two.front());
  EXPECT_NE(said(copy(two)).find("other layers"), std::string::npos);
}

TEST(Layers, AreATextAndBack) {
  const Layers layers = {{"torch", 3}, {"tools_x-1", 12}};
  EXPECT_EQ(text_of(layers), "torch:3,tools_x-1:12");
  EXPECT_EQ(*parse_layers("torch:3,tools_x-1:12"), layers);
  EXPECT_TRUE(parse_layers("")->empty());
  for (const char* bad : {"torch", "torch:", "torch:0", "torch:x", ":1", "a b:1", "a:1,", "a:1,a:2",
                          "a:-1", "a:1,b:1,c:1,d:1,e:1,f:1", "../x:1", "a:99999999999999999999"}) {
    const auto read = parse_layers(bad);
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace lambent::layers
