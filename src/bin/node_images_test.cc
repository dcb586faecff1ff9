#include "bin/node_images.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/testing/testing.h"
#include "core/base/time.h"
#include "core/crypto/crypto.h"

namespace lambent {
namespace {

namespace fs = std::filesystem;

// What another node has of images, each one file: told when a test says so.
class HeldFiles final : public VolumeSource {
 public:
  struct Node {
    std::map<std::string, std::string> contents;  // by image
    std::map<std::string, Bytes> said_sizes;      // that are not those of the contents
    std::vector<std::function<void()>> asked;     // lists and parts that are not told yet
  };
  explicit HeldFiles(Node& node) : node_(node) {}

  std::string keeper() const override { return "b"; }
  void list(Callback<std::map<VolumeName, VolumeStatus>>) override {}
  void list_files(const VolumeName& volume, Callback<std::vector<VolumeFile>> done) override {
    node_.asked.push_back([this, name = volume.name, done = std::move(done)] {
      const auto found = node_.contents.find(name);
      if (found == node_.contents.end()) return done(Error{ErrorCode::kNotFound, "not here"});
      const auto said = node_.said_sizes.find(name);
      done(std::vector<VolumeFile>{
          {"blob", said != node_.said_sizes.end() ? said->second : Bytes(found->second.size()),
           crypto::to_hex(crypto::sha256(found->second))}});
    });
  }
  void read(const VolumeName& volume, const VolumeFile&, Bytes offset, Bytes count,
            Callback<std::string> done) override {
    node_.asked.push_back([this, name = volume.name, offset, count, done = std::move(done)] {
      const auto found = node_.contents.find(name);
      if (found == node_.contents.end()) return done(Error{ErrorCode::kNotFound, "not here"});
      done(found->second.substr(offset.count, count.count));
    });
  }

 private:
  Node& node_;
};

class NodeImagesTest : public testing::Test {
 protected:
  ~NodeImagesTest() override { node_.reset(); }
  void open(Bytes most = Bytes::gib(1)) {
    config_.state_folder = folder_.path();
    config_.images_size = most;
    auto node = NodeImages::open(config_, loop_, log_, images_);
    ASSERT_TRUE(node.ok()) << to_string(node.error());
    node_ = std::move(*node);
    node_->connect(
        {.to_ask = [] { return std::vector<std::string>{"b"}; },
         .is_lost = [](const std::string&) { return false; },
         .files_of = [this](const std::string&) { return std::make_unique<HeldFiles>(other_); }});
  }
  static std::string name_of(char letter) { return std::string(64, letter); }
  // What becomes of it is in told_, under the image and what it is known by.
  void ask_for(char letter, const std::string& known_as = "/srv/app") {
    images_.ensure(*parse_image_reference("oci:" + known_as + "@sha256:" + name_of(letter)), "",
                   {.is_elsewhere = true}, [this, key = letter + known_as](const auto& image) {
                     told_[key] = name_of_error(image);
                   });
  }
  static std::string name_of_error(const Result<images::PulledImage>& image) {
    return image.ok() ? "OK" : std::string(lambent::name_of(image.error().code));
  }
  template <typename Condition>
  bool run_until(Condition is_met) {
    for (int turn = 0; turn < 2000 && !is_met(); ++turn) loop_.run_once(milliseconds(1));
    return is_met();
  }
  void run_a_while() {
    for (int turn = 0; turn < 30; ++turn) loop_.run_once(milliseconds(1));
  }
  void tell_next() {
    const auto tell = std::move(other_.asked.front());
    other_.asked.erase(other_.asked.begin());
    tell();
  }
  bool is_copied(char letter) const {
    return fs::exists(folder_.path() + "/image_copies/" + std::to_string(kDefaultTenant.value) +
                      "/" + name_of(letter));
  }

  // A program that unpacks nothing, and says that it did when a line comes to its pipe.
  images::ImageOptions options() const {
    images::PulledImage image;
    image.digest = "sha256:" + name_of('a');
    const std::string program = folder_ / "unpack";
    std::ofstream(program) << "#!/bin/sh\ncd " << folder_.path()
                           << "\ncase $(cat) in *'pull-1\"'*) n=1;; *) n=2;; esac\n"
                           << "touch begun-$n\nread line < end-$n\ncat report\n";
    fs::permissions(program, fs::perms::owner_all);
    std::ofstream(folder_ / "report") << "done " << to_json(image) << "\n";
    for (const char* pipe : {"end-1", "end-2"}) mkfifo((folder_ / pipe).c_str(), 0600);
    images::ImageOptions options;
    options.folder = folder_ / "images";
    options.program = program;
    options.skopeo = options.umoci = "/usr/bin/true";
    return options;
  }
  bool is_being_unpacked(int number) const {
    return fs::exists(folder_ / ("begun-" + std::to_string(number)));
  }
  void end_pull(int number) {
    std::ofstream(folder_ / ("end-" + std::to_string(number))) << "go\n";
  }
  // All that is asked for is told.
  bool tell_until(const std::function<bool()>& is_met) {
    return run_until([&] {
      if (!other_.asked.empty()) tell_next();
      return is_met();
    });
  }

  const TemporaryFolder folder_;
  WorkerConfig config_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
  images::ImageStore images_{loop_, log_, [](auto, auto) { return false; }, options()};
  HeldFiles::Node other_;
  std::map<std::string, std::string> told_;
  std::unique_ptr<NodeImages> node_;
};

TEST_F(NodeImagesTest, SeveralAreBroughtAtOnceAndTheOthersAfterThem) {
  open();
  for (const char letter : {'a', 'b', 'c'}) ask_for(letter);
  run_a_while();
  EXPECT_EQ(other_.asked.size(), NodeImages::kAtOnce);
  EXPECT_TRUE(tell_until([this] { return told_.size() == 3; }));
  for (const auto& [image, told] : told_) EXPECT_EQ(told, "UNAVAILABLE") << image;
}

TEST_F(NodeImagesTest, TooManyThatWaitAreToldSo) {
  open();
  for (size_t each = 0; each <= NodeImages::kMostWaiting; ++each) {
    ask_for('a', "/srv/" + std::to_string(each));
  }
  EXPECT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_.begin()->second, "RESOURCE_EXHAUSTED");
  EXPECT_TRUE(tell_until([this] { return told_.size() == NodeImages::kMostWaiting + 1; }));
}

TEST_F(NodeImagesTest, AllTogetherStayWithinTheBoundAndWhoDoesNotFitComesAfterTheOthers) {
  open(Bytes(1000));
  other_.contents = {{name_of('a'), std::string(600, 'x')}, {name_of('b'), std::string(600, 'y')}};
  ask_for('a');
  ask_for('b');
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 2; }));
  tell_next();
  tell_next();
  run_a_while();
  ASSERT_EQ(other_.asked.size(), 1u) << "a part of one of them: the other one has no room";
  EXPECT_TRUE(tell_until([this] { return is_being_unpacked(1); }));
  EXPECT_TRUE(other_.asked.empty()) << "while it is unpacked it is on the disk";
  end_pull(1);
  EXPECT_TRUE(tell_until([this] { return is_being_unpacked(2); }));
  EXPECT_NE(is_copied('a'), is_copied('b'));
  end_pull(2);
  EXPECT_TRUE(run_until([this] { return told_.size() == 2; }));
  for (const auto& [image, told] : told_) EXPECT_EQ(told, "OK") << image;
}

TEST_F(NodeImagesTest, OneThatNeverFitsIsRefused) {
  open(Bytes(1000));
  other_.contents = {{name_of('a'), std::string(1001, 'x')}};
  ask_for('a');
  EXPECT_TRUE(tell_until([this] { return told_.size() == 1; }));
  EXPECT_EQ(told_.begin()->second, "RESOURCE_EXHAUSTED");
}

// None of them makes room for the other one.
TEST_F(NodeImagesTest, TwoThatNeverFitTheDiskAreRefused) {
  constexpr uint64_t kTebibyte = uint64_t{1} << 40;
  open(Bytes(4096 * kTebibyte));
  for (const char letter : {'a', 'b'}) {
    other_.contents[name_of(letter)] = "x";
    other_.said_sizes[name_of(letter)] = Bytes(1024 * kTebibyte);
    ask_for(letter);
  }
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 2; }));
  tell_next();
  tell_next();
  EXPECT_TRUE(tell_until([this] { return told_.size() == 2; }));
  for (const auto& [image, told] : told_) EXPECT_EQ(told, "RESOURCE_EXHAUSTED") << image;
}

TEST_F(NodeImagesTest, OneThatNeverFitsTheDiskTakesNoRoomFromAnother) {
  constexpr uint64_t kTebibyte = uint64_t{1} << 40;
  open(Bytes(4096 * kTebibyte));
  other_.contents = {{name_of('a'), "x"}, {name_of('b'), "y"}};
  other_.said_sizes[name_of('a')] = Bytes(1024 * kTebibyte);
  ask_for('a');
  ask_for('b');
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 2; }));
  tell_next();
  tell_next();
  EXPECT_TRUE(tell_until([this] { return is_being_unpacked(1); }));
  end_pull(1);
  EXPECT_TRUE(tell_until([this] { return told_.size() == 2; }));
  EXPECT_EQ(told_["a/srv/app"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(told_["b/srv/app"], "OK");
}

TEST_F(NodeImagesTest, OneThatLacksRoomIsTriedAgainOnceAnUnpackedCopyIsRemoved) {
  constexpr uint64_t kTebibyte = uint64_t{1} << 40;
  open(Bytes(4096 * kTebibyte));
  other_.contents = {{name_of('a'), "x"}, {name_of('b'), "y"}};
  other_.said_sizes[name_of('b')] = Bytes(1024 * kTebibyte);
  ask_for('a');
  ASSERT_TRUE(tell_until([this] { return is_being_unpacked(1); }));
  ask_for('b');
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 1; }));
  tell_next();  // the list
  run_a_while();
  ASSERT_TRUE(told_.empty()) << "the copy that is unpacked will make room";
  ASSERT_TRUE(other_.asked.empty());
  end_pull(1);
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 1; })) << "its list again";
  EXPECT_FALSE(is_copied('a'));
  // Now nothing makes room any more.
  EXPECT_TRUE(tell_until([this] { return told_.size() == 2; }));
  EXPECT_EQ(told_["a/srv/app"], "OK");
  EXPECT_EQ(told_["b/srv/app"], "RESOURCE_EXHAUSTED");
}

TEST_F(NodeImagesTest, WhatCameInPartMakesWayForWhatIsNeeded) {
  open(Bytes::mib(6));
  other_.contents = {{name_of('a'), std::string(Bytes::mib(5).count, 'x')},
                     {name_of('b'), std::string(Bytes::mib(3).count, 'y')}};
  ask_for('a');
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 1; }));
  tell_next();  // the list
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 1; }));
  tell_next();  // a part
  ASSERT_TRUE(run_until([this] { return other_.asked.size() == 1; }));
  other_.contents.erase(name_of('a'));
  EXPECT_TRUE(tell_until([this] {
    clock_.advance(seconds(1));
    return told_.size() == 1;
  }));
  ASSERT_TRUE(is_copied('a')) << "it may be asked for again soon";
  ask_for('b');
  EXPECT_TRUE(tell_until([this] { return is_being_unpacked(1); }));
  EXPECT_TRUE(run_until([this] { return !is_copied('a'); }));
  EXPECT_TRUE(is_copied('b'));
  end_pull(1);
  EXPECT_TRUE(run_until([this] { return told_.size() == 2; }));
}

TEST_F(NodeImagesTest, ACopyStaysUntilTheLastOneThatUnpacksItHasEnded) {
  open();
  other_.contents = {{name_of('a'), "a layout"}};
  ask_for('a', "/srv/one");
  ask_for('a', "/srv/two");
  EXPECT_TRUE(tell_until([this] { return is_being_unpacked(1) && is_being_unpacked(2); }));
  end_pull(1);
  ASSERT_TRUE(run_until([this] { return told_.size() == 1; }));
  run_a_while();
  EXPECT_TRUE(is_copied('a')) << "the other one reads it";
  end_pull(2);
  ASSERT_TRUE(run_until([this] { return told_.size() == 2; }));
  EXPECT_TRUE(run_until([this] { return !is_copied('a'); }));
}

TEST_F(NodeImagesTest, OfAnImageThatNothingAsksForNothingStaysAfterAnHour) {
  // What a worker that was killed had brought of it.
  {
    auto store = volumes::VolumeStore::open(folder_.path() + "/image_copies", clock_, log_,
                                            [](auto work, auto completion) {
                                              work();
                                              completion();
                                              return true;
                                            });
    ASSERT_TRUE(store.ok());
    (*store)->create_volume(kDefaultTenant, name_of('a'), [](const auto&) {});
  }
  open();
  clock_.advance(std::chrono::minutes(59));
  loop_.run_once(Duration(0));
  EXPECT_TRUE(is_copied('a')) << "the next attempt goes on with it";
  clock_.advance(std::chrono::minutes(2));
  // Its thread removes it.
  EXPECT_TRUE(run_until([this] { return !is_copied('a'); }));
}

}  // namespace
}  // namespace lambent
