#include "node/volumes/volume_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/crypto/crypto.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TenantId kTenant{7};
const VolumeName kWeights{kTenant, "weights"};

std::string digest_of(const std::string& content) {
  return crypto::to_hex(crypto::sha256(content));
}

// A node that keeps volumes. It answers in a later turn, as over a network.
class FakeKeeper final : public VolumeSource {
 public:
  std::map<VolumeName, std::map<std::string, std::string>> volumes;
  std::string name = "a";
  std::optional<Error> silence;  // to everything
  std::function<Result<std::string>(const std::string& path, uint64_t offset, std::string bytes)>
      spoil;
  int parts = 0;
  int lists_of_files = 0;
  std::deque<std::function<void()>> answers;

  bool is_this_node = false;
  std::string keeper() const override { return name; }
  bool keeps_here() const override { return is_this_node; }
  void list(Callback<std::map<VolumeName, VolumeStatus>> done) override {
    answers.push_back([this, done] {
      if (silence) return done(*silence);
      std::map<VolumeName, VolumeStatus> told;
      for (const auto& [volume, files] : volumes) {
        VolumeIndex index;
        for (const VolumeFile& file : files_of(volume)) index.put(file);
        told[volume] = {.name = volume.name,
                        .files = index.files(),
                        .size = index.size(),
                        .version = index.version()};
      }
      done(told);
    });
  }
  void list_files(const VolumeName& volume, Callback<std::vector<VolumeFile>> done) override {
    ++lists_of_files;
    answers.push_back([this, volume, done] {
      if (silence) return done(*silence);
      if (!volumes.contains(volume)) return done(Error{ErrorCode::kNotFound, "it is gone"});
      done(files_of(volume));
    });
  }
  void read(const VolumeName& volume, const VolumeFile& file, Bytes offset, Bytes count,
            Callback<std::string> done) override {
    answers.push_back([this, volume, file, offset, count, done] {
      ++parts;
      if (silence) return done(*silence);
      if (!volumes.contains(volume)) return done(Error{ErrorCode::kNotFound, "it is gone"});
      const std::string content = volumes[volume][file.path];
      if (digest_of(content) != file.sha256) {
        return done(Error{ErrorCode::kAborted, "another file is there"});
      }
      std::string bytes = content.substr(offset.count, count.count);
      if (spoil) return done(spoil(file.path, offset.count, std::move(bytes)));
      done(bytes);
    });
  }

 private:
  std::vector<VolumeFile> files_of(const VolumeName& volume) const {
    std::vector<VolumeFile> files;
    const auto found = volumes.find(volume);
    if (found == volumes.end()) return files;
    for (const auto& [path, content] : found->second) {
      files.push_back({path, Bytes(content.size()), digest_of(content)});
    }
    return files;
  }
};

class VolumeCopiesTest : public testing::Test {
 protected:
  VolumeCopiesTest() {
    std::string name = testing::TempDir() + "/copies.XXXXXX";
    folder_ = mkdtemp(name.data());
    kept_ = open(folder_ + "/kept");
    start();
  }
  ~VolumeCopiesTest() override {
    stop();
    kept_.reset();
    fs::remove_all(folder_);
  }

  std::unique_ptr<VolumeStore> open(const std::string& folder) {
    auto store = VolumeStore::open(folder, clock_, log_, [this](auto work, auto completion) {
      tasks_.push_back({std::move(work), std::move(completion)});
      return true;
    });
    EXPECT_TRUE(store.ok()) << to_string(store.error());
    return std::move(*store);
  }
  void start() {
    store_ = open(folder_ + "/copies");
    copies_ = std::make_unique<VolumeCopies>(
        VolumeCopies::Uses{.loop = loop_,
                           .log = log_,
                           .kept = *kept_,
                           .copies = *store_,
                           .record = folder_ + "/record.json",
                           .most = most_,
                           .in_cluster = in_cluster_,
                           .mounted = [this] { return mounted_; },
                           .free = [this] { return free_; },
                           .made_of = [this](const VolumeName& volume) { return made_[volume]; },
                           .removed = [this](const VolumeName& volume) { made_.erase(volume); }});
    copies_->set_source(&keeper_);
  }
  // As a worker that ends: what is on its way is lost.
  void stop() {
    copies_->set_source(nullptr);
    copies_.reset();
    tasks_.clear();
    keeper_.answers.clear();
    store_.reset();
  }
  // All that happens within so long, or until nothing more does.
  void run(Duration most = seconds(30)) {
    const Instant until = clock_.now() + most;
    while (clock_.now() < until) {
      while (!tasks_.empty() || !keeper_.answers.empty()) {
        if (!tasks_.empty()) {
          auto [work, completion] = std::move(tasks_.front());
          tasks_.pop_front();
          work();
          completion();
        } else {
          const auto answer = std::move(keeper_.answers.front());
          keeper_.answers.pop_front();
          answer();
        }
      }
      clock_.advance(milliseconds(50));
      loop_.run_once(Duration(0));
    }
  }
  Result<void> bring(const VolumeName& volume = kWeights) {
    Result<void> result = Error{ErrorCode::kInternal, "no answer"};
    copies_->bring({volume}, [&](const Result<void>& brought) { result = brought; });
    run();
    return result;
  }
  std::string seen(const std::string& path, const VolumeName& volume = kWeights) {
    const auto folder = copies_->folder(volume);
    if (!folder.ok()) return "(" + std::string(name_of(folder.error().code)) + ")";
    std::ifstream file(*folder + "/" + path);
    return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "(none)";
  }
  std::map<std::string, std::string>& kept() { return keeper_.volumes[kWeights]; }

  std::string folder_;
  FakeClock clock_;
  NullLogSink log_;
  loop::EventLoop loop_{clock_};
  std::deque<std::pair<std::function<void()>, std::function<void()>>> tasks_;
  FakeKeeper keeper_;
  Bytes most_ = Bytes::gib(1);
  bool in_cluster_ = false;
  std::optional<Bytes> free_;
  std::set<VolumeName> mounted_;
  std::map<VolumeName, Bytes> made_;  // what was made of copies
  std::unique_ptr<VolumeStore> kept_, store_;
  std::unique_ptr<VolumeCopies> copies_;
};

TEST_F(VolumeCopiesTest, BringsAVolumeWholeWhenItIsNeeded) {
  kept() = {{"config", "{}"}, {"models/large", std::string(9 << 20, 'w')}, {"empty", ""}};
  EXPECT_FALSE(copies_->is_here(kWeights));
  ASSERT_TRUE(bring().ok());
  EXPECT_TRUE(copies_->is_here(kWeights));
  EXPECT_EQ(seen("models/large"), kept()["models/large"]);
  EXPECT_EQ(seen("config"), "{}");
  EXPECT_EQ(seen("empty"), "");
  EXPECT_EQ(keeper_.parts, 4) << "9 MiB in parts of at most 4, and one for the small file";
  EXPECT_EQ(copies_->counts().brought, Bytes((9 << 20) + 2));
}

TEST_F(VolumeCopiesTest, BringsItOnceForAllThatWait) {
  kept() = {{"large", std::string(5 << 20, 'w')}};
  int ready = 0;
  for (int each = 0; each < 20; ++each) {
    copies_->bring({kWeights}, [&](const Result<void>& result) { ready += result.ok() ? 1 : 0; });
  }
  run();
  EXPECT_EQ(ready, 20);
  EXPECT_EQ(keeper_.parts, 2);
  EXPECT_EQ(copies_->counts().fetched, 1u);
}

TEST_F(VolumeCopiesTest, BringsOnlyWhatChangedAndRemovesWhatWent) {
  kept() = {{"same", std::string(100, 's')}, {"old", "1"}, {"folder", "a file"}};
  ASSERT_TRUE(bring().ok());
  keeper_.parts = 0;
  kept() = {{"same", std::string(100, 's')}, {"old", "2"}, {"folder/now", "a folder"}};
  run(seconds(2));
  EXPECT_FALSE(copies_->is_here(kWeights)) << "a start would see what was";
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(keeper_.parts, 2);
  EXPECT_EQ(seen("old"), "2");
  EXPECT_EQ(seen("folder/now"), "a folder");
}

TEST_F(VolumeCopiesTest, AFetchThatFailedInTheMiddleIsMendedWhenTheKeeperHasTheOldFilesAgain) {
  const std::map<std::string, std::string> before{{"config", "1"}, {"weights", "of 1"}};
  kept() = before;
  ASSERT_TRUE(bring().ok());
  kept() = {{"config", "2"}, {"weights", "of 2"}};
  keeper_.spoil = [](const std::string& path, uint64_t, std::string bytes) -> Result<std::string> {
    if (path == "weights") return Error{ErrorCode::kUnavailable, "cut off"};
    return bytes;
  };
  ASSERT_FALSE(bring().ok());
  ASSERT_EQ(seen("config"), "2") << "one file came";
  keeper_.spoil = nullptr;
  kept() = before;
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(seen("config"), "1");
  EXPECT_TRUE(copies_->is_here(kWeights));
}

TEST_F(VolumeCopiesTest, SandboxesThatRunSeeWhatIsChanged) {
  kept() = {{"model", "1"}};
  ASSERT_TRUE(bring().ok());
  mounted_ = {kWeights};
  kept() = {{"model", "2"}};
  EXPECT_TRUE(copies_->is_here(kWeights)) << "calls of those that run do not wait for it";
  run(seconds(3));
  EXPECT_EQ(seen("model"), "2");
}

TEST_F(VolumeCopiesTest, OneThatComesWhileAnOlderStateIsOnItsWayGetsTheNewer) {
  kept() = {{"large", std::string(9 << 20, '1')}};
  std::string got;
  keeper_.spoil = [&](const std::string& path, uint64_t, std::string bytes) -> Result<std::string> {
    if (path == "large" && !kept().contains("later")) {
      kept()["later"] = "put before the next one asks";
      copies_->bring({kWeights}, [&](const Result<void>&) { got = seen("later"); });
    }
    return bytes;
  };
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(got, "put before the next one asks");
}

TEST_F(VolumeCopiesTest, GoesOnWhereItWasCutOffAlsoInAnotherProgram) {
  kept() = {{"large", std::string(20 << 20, 'w')}};
  keeper_.spoil = [&](const std::string&, uint64_t offset,
                      std::string bytes) -> Result<std::string> {
    if (offset >= (uint64_t{12} << 20))
      return Error{ErrorCode::kUnavailable, "node 'a' does not answer"};
    return bytes;
  };
  const auto cut = bring();
  EXPECT_EQ(cut.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(cut.error().message, HasSubstr("volume 'weights' cannot be brought from node 'a'"));
  EXPECT_EQ(seen("large"), "(UNAVAILABLE)");
  stop();
  start();
  keeper_.spoil = nullptr;
  keeper_.parts = 0;
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(keeper_.parts, 2) << "of five";
  EXPECT_EQ(seen("large"), kept()["large"]);
}

TEST_F(VolumeCopiesTest, AsksAgainForAPartThatCameAltered) {
  kept() = {{"large", std::string(9 << 20, 'w')}};
  int altered = 0;
  keeper_.spoil = [&](const std::string&, uint64_t offset,
                      std::string bytes) -> Result<std::string> {
    const bool alters = offset == (uint64_t{4} << 20) && altered++ < 3;
    if (alters) return Error{ErrorCode::kDataLoss, "other bytes came than were sent"};
    return bytes;
  };
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(altered, 4);
}

TEST_F(VolumeCopiesTest, KeepsNothingOfANodeThatSendsOtherBytes) {
  kept() = {{"model", "a true word"}};
  keeper_.spoil = [](const std::string&, uint64_t, std::string) -> Result<std::string> {
    return std::string("a lying one");
  };
  EXPECT_EQ(bring().error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(seen("model"), "(UNAVAILABLE)");
  EXPECT_EQ(store_->find_volume(kTenant, "weights")->files, 0u);
  keeper_.spoil = [](const std::string&, uint64_t, std::string) -> Result<std::string> {
    return std::string("more than was asked for");
  };
  EXPECT_EQ(bring().error().code, ErrorCode::kDataLoss);
}

TEST_F(VolumeCopiesTest, BeginsAgainWhenAFileIsReplacedUnderIt) {
  kept() = {{"large", std::string(9 << 20, '1')}};
  bool replaced = false;
  keeper_.spoil = [&](const std::string&, uint64_t, std::string bytes) -> Result<std::string> {
    if (!std::exchange(replaced, true)) kept()["large"] = std::string(5 << 20, '2');
    return bytes;
  };
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(seen("large"), std::string(5 << 20, '2'));
}

TEST_F(VolumeCopiesTest, RunsWithWhatItHasWhileItsKeeperIsSilent) {
  kept() = {{"model", "1"}};
  ASSERT_TRUE(bring().ok());
  keeper_.silence = Error{ErrorCode::kUnavailable, "node 'a' does not answer"};
  EXPECT_TRUE(bring().ok());
  EXPECT_EQ(seen("model"), "1");
  const VolumeName other{kTenant, "other"};
  EXPECT_EQ(bring(other).error().code, ErrorCode::kUnavailable);
  // Also in the next program, which has heard nothing of it.
  stop();
  start();
  EXPECT_TRUE(bring().ok());
  EXPECT_EQ(seen("model"), "1");
}

TEST_F(VolumeCopiesTest, WhatIsRemovedThereGoesHere) {
  kept() = {{"model", "1"}};
  ASSERT_TRUE(bring().ok());
  keeper_.volumes.clear();
  run(seconds(3));
  EXPECT_TRUE(store_->all().empty());
  EXPECT_EQ(bring().error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(VolumeCopiesTest, WhoBeginsToWaitWhileOthersAreAnsweredIsAnsweredToo) {
  kept() = {{"model", "1"}};
  int ready = 0;
  const auto count = [&](const Result<void>& result) { ready += result.ok() ? 1 : 0; };
  copies_->bring({{kTenant, "none"}}, [&](const Result<void>& missing) {
    EXPECT_FALSE(missing.ok());
    copies_->bring({kWeights}, count);
  });
  copies_->bring({kWeights}, count);
  run();
  EXPECT_EQ(ready, 2);
}

TEST_F(VolumeCopiesTest, NothingMoreComesForATenantThatIsForgotten) {
  std::vector<ErrorCode> told;
  std::vector<VolumeName> volumes;
  for (const char* name : {"one", "two", "three"}) {
    volumes.push_back({kTenant, name});
    keeper_.volumes[volumes.back()] = {{"f", std::string(9 << 20, *name)}};
  }
  keeper_.spoil = [&](const std::string&, uint64_t, std::string bytes) -> Result<std::string> {
    if (!keeper_.volumes.empty()) copies_->forget_tenant(kTenant);
    keeper_.volumes.clear();
    return bytes;
  };
  for (const VolumeName& volume : volumes) {
    copies_->bring({volume}, [&](const Result<void>& result) {
      told.push_back(result.ok() ? ErrorCode::kInternal : result.error().code);
    });
  }
  run();
  EXPECT_EQ(told, std::vector(3, ErrorCode::kFailedPrecondition));
  EXPECT_TRUE(store_->all().empty());
  EXPECT_TRUE(copies_->absent().empty());
}

TEST_F(VolumeCopiesTest, TheRecordIsWrittenOnceForAllThatGoTogether) {
  struct Counting final : LogSink {
    void write(LogLevel, std::string_view event, std::initializer_list<LogField>) override {
      written += event == "volume_record_not_written" ? 1 : 0;
    }
    int written = 0;
  };
  const VolumeName other{kTenant, "other"};
  kept() = {{"model", "1"}};
  keeper_.volumes[other] = {{"model", "2"}};
  ASSERT_TRUE(bring().ok());
  ASSERT_TRUE(bring(other).ok());
  stop();
  Counting log;
  store_ = open(folder_ + "/copies");
  // A folder that is missing: each attempt to write is seen.
  copies_ =
      std::make_unique<VolumeCopies>(VolumeCopies::Uses{.loop = loop_,
                                                        .log = log,
                                                        .kept = *kept_,
                                                        .copies = *store_,
                                                        .record = folder_ + "/missing/record.json",
                                                        .most = most_});
  copies_->set_source(&keeper_);
  keeper_.volumes.clear();
  run(seconds(3));
  EXPECT_TRUE(store_->all().empty());
  EXPECT_EQ(log.written, 1);
  stop();
  start();
}

TEST_F(VolumeCopiesTest, WhatIsRemovedWhileItComesIsSaidToThoseThatWait) {
  kept() = {{"large", std::string(9 << 20, '1')}};
  keeper_.spoil = [&](const std::string&, uint64_t, std::string) -> Result<std::string> {
    keeper_.volumes.clear();
    return Error{ErrorCode::kUnavailable, "cut off"};
  };
  const auto result = bring();
  EXPECT_FALSE(result.ok());
  EXPECT_TRUE(store_->all().empty());
}

TEST_F(VolumeCopiesTest, CopiesThatNothingMountsGiveWay) {
  stop();
  most_ = Bytes::mib(10);
  start();
  std::vector<VolumeName> volumes;
  for (const char* name : {"one", "two", "three"}) {
    volumes.push_back({kTenant, name});
    keeper_.volumes[volumes.back()] = {{"f", std::string(4 << 20, *name)}};
  }
  ASSERT_TRUE(bring(volumes[0]).ok());
  ASSERT_TRUE(bring(volumes[1]).ok());
  mounted_ = {volumes[0]};
  ASSERT_TRUE(bring(volumes[2]).ok());
  EXPECT_THAT(store_->all(), ElementsAre(volumes[0], volumes[2]));
  EXPECT_THAT(copies_->absent(), ElementsAre(volumes[1]));
  mounted_ = {volumes[0], volumes[2]};
  const auto refused = bring(volumes[1]);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("--volume-copies"));
}

TEST_F(VolumeCopiesTest, OneMoreThanTheLimitOfThoseThatWaitIsRefusedAndTheOthersAreServed) {
  kept() = {{"model", "1"}};
  size_t ready = 0;
  for (size_t each = 0; each < VolumeCopies::kMostWaiting; ++each) {
    copies_->bring({kWeights}, [&](const Result<void>& result) { ready += result.ok() ? 1 : 0; });
  }
  std::optional<Error> refused;
  copies_->bring({kWeights}, [&](const Result<void>& result) { refused = result.error(); });
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused->message, HasSubstr("try again later"));
  run();
  EXPECT_EQ(ready, VolumeCopies::kMostWaiting);
  EXPECT_TRUE(bring().ok()) << "the limit is of those that wait at once";
}

TEST_F(VolumeCopiesTest, WhatIsMadeOfACopyCountsAndGoesWithIt) {
  stop();
  most_ = Bytes(100);
  start();
  const VolumeName other{kTenant, "other"};
  for (const VolumeName& volume : {kWeights, other}) {
    keeper_.volumes[volume] = {{"zip", std::string(20, volume.name[0])}};
    ASSERT_TRUE(bring(volume).ok());
  }
  EXPECT_TRUE(copies_->copied_folder(kWeights).ok());
  ASSERT_TRUE(copies_->make_room(kWeights, Bytes(60)).ok());
  made_[kWeights] = Bytes(60);
  EXPECT_EQ(copies_->counts().size, Bytes(100));
  EXPECT_TRUE(copies_->copied_folder(other).ok()) << "nothing had to go";
  // The other one, but never the one that it is for.
  ASSERT_TRUE(copies_->make_room(kWeights, Bytes(20)).ok());
  EXPECT_FALSE(copies_->copied_folder(other).ok());
  EXPECT_FALSE(copies_->make_room(kWeights, Bytes(21)).ok());
  EXPECT_EQ(made_.at(kWeights), Bytes(60));
  mounted_ = {kWeights};
  EXPECT_FALSE(bring(other).ok() && copies_->make_room(other, Bytes(1)).ok());
  mounted_ = {};
  ASSERT_TRUE(copies_->make_room(other, Bytes(50)).ok());
  EXPECT_FALSE(made_.contains(kWeights));
  EXPECT_FALSE(copies_->copied_folder(kWeights).ok());
}

TEST_F(VolumeCopiesTest, WhatIsHeldStaysUntilItIsReleased) {
  stop();
  most_ = Bytes(100);
  start();
  kept() = {{"zip", std::string(60, 'w')}};
  ASSERT_TRUE(bring().ok());
  copies_->hold(kWeights);
  const VolumeName other{kTenant, "other"};
  keeper_.volumes[other] = {{"zip", std::string(60, 'o')}};
  EXPECT_EQ(bring(other).error().code, ErrorCode::kResourceExhausted) << "it gives way to none";
  keeper_.volumes.erase(kWeights);
  run(seconds(3));
  EXPECT_TRUE(copies_->copied_folder(kWeights).ok()) << "nor does it go with the keeper's";
  copies_->release(kWeights);
  run(seconds(3));
  EXPECT_FALSE(copies_->copied_folder(kWeights).ok());
  EXPECT_TRUE(bring(other).ok());
  copies_->hold(other);
  copies_->forget_tenant(kTenant);
  EXPECT_FALSE(copies_->copied_folder(other).ok());
}

TEST_F(VolumeCopiesTest, WhoWaitsForACopyThatIsDroppedMayTryAgain) {
  kept() = {{"zip", std::string(9 << 20, 'w')}};
  keeper_.spoil = [&](const std::string&, uint64_t, std::string bytes) -> Result<std::string> {
    copies_->drop(kWeights);
    return bytes;
  };
  const auto dropped = bring();
  EXPECT_EQ(dropped.error().code, ErrorCode::kUnavailable) << dropped.error().message;
  keeper_.spoil = nullptr;
  EXPECT_TRUE(bring().ok());
}

TEST_F(VolumeCopiesTest, RefusesWhatTheDiskDoesNotHold) {
  kept() = {{"large", std::string(9 << 20, '1')}};
  free_ = VolumeCopies::kLeftFree + Bytes::mib(8);
  const auto refused = bring();
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("free"));
  EXPECT_EQ(keeper_.parts, 0);
  free_ = VolumeCopies::kLeftFree + Bytes::mib(9);
  EXPECT_TRUE(bring().ok());
}

TEST_F(VolumeCopiesTest, ANodeThatKeepsVolumesItselfAsksNoOtherNode) {
  keeper_.name = "";
  EXPECT_TRUE(copies_->is_here(kWeights));
  EXPECT_EQ(copies_->folder(kWeights).error().code, ErrorCode::kNotFound);
  kept_->create_volume(kTenant, "weights", [](const auto&) {});
  run(seconds(1));
  EXPECT_EQ(*copies_->folder(kWeights), *kept_->mounted_folder(kTenant, "weights"));
}

TEST_F(VolumeCopiesTest, ANodeThatDoesNotKnowItsClusterYetSaysSoAndUsesWhatItHas) {
  stop();
  in_cluster_ = true;
  start();
  kept() = {{"model", "1"}};
  keeper_.name = "";
  EXPECT_FALSE(copies_->is_here(kWeights));
  EXPECT_EQ(bring().error().code, ErrorCode::kUnavailable);
  keeper_.name = "a";
  ASSERT_TRUE(bring().ok());
  keeper_.name = "";
  EXPECT_TRUE(copies_->is_here(kWeights));
  EXPECT_TRUE(bring().ok());
  EXPECT_EQ(seen("model"), "1");
}

TEST_F(VolumeCopiesTest, TheNodeThatKeepsTheVolumesOfItsClusterDoesNotWaitForAnotherOne) {
  stop();
  in_cluster_ = true;
  start();
  keeper_.name = "";
  EXPECT_TRUE(copies_->lacks_keeper());
  keeper_.is_this_node = true;
  EXPECT_FALSE(copies_->lacks_keeper());
  const auto none = bring();
  EXPECT_EQ(none.error().code, ErrorCode::kFailedPrecondition) << none.error().message;
  kept_->create_volume(kTenant, "weights", [](const auto&) {});
  EXPECT_TRUE(bring().ok());
  EXPECT_EQ(*copies_->folder(kWeights), *kept_->mounted_folder(kTenant, "weights"));
}

TEST_F(VolumeCopiesTest, AVolumeOfThisNodeIsUsedWhereTheKeeperHasNoneOfThatName) {
  kept_->create_volume(kTenant, "weights", [](const auto&) {});
  ASSERT_TRUE(bring().ok());
  EXPECT_TRUE(copies_->is_here(kWeights));
  EXPECT_EQ(*copies_->folder(kWeights), *kept_->mounted_folder(kTenant, "weights"));
  kept() = {{"model", "of the keeper"}};
  ASSERT_TRUE(bring().ok());
  EXPECT_EQ(seen("model"), "of the keeper");
  EXPECT_TRUE(kept_->find_volume(kTenant, "weights").ok()) << "it stays as it is";
}

TEST_F(VolumeCopiesTest, AKeeperOfAnOlderProgramLeavesEachNodeItsOwn) {
  kept_->create_volume(kTenant, "weights", [](const auto&) {});
  keeper_.silence = Error{ErrorCode::kUnimplemented, "its program keeps its volumes to itself"};
  EXPECT_TRUE(bring().ok());
  EXPECT_EQ(*copies_->folder(kWeights), *kept_->mounted_folder(kTenant, "weights"));
}

}  // namespace
}  // namespace lambent::volumes
