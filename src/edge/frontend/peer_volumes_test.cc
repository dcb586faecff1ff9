// The volumes of another node, which may say anything.
#include "edge/frontend/peer_volumes.h"

#include <gmock/gmock.h>

#include <deque>
#include <optional>
#include <utility>

#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "edge/frontend/testing/fake_access.h"

namespace lambent::frontend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TenantId kRed(7);
const std::string kDigest(64, 'a');
const std::string kVersion(64, 'b');
const std::string kOtherVersion(64, 'c');
const VolumeName kWeights{kRed, "weights"};

http::Response answer(int status, std::string body = "") {
  return {.status = status, .headers = {}, .body = std::move(body)};
}

std::string page(const std::string& version, const std::vector<std::string>& paths, bool is_last) {
  VolumePage made{.version = version, .is_last = is_last};
  for (const std::string& path : paths) made.files.push_back({path, Bytes(1), kDigest});
  return json_text_of(made);
}

// What came of one call.
template <typename T>
struct Told {
  std::optional<Result<T>> result;
  VolumeSource::Callback<T> callback() {
    return [this](Result<T> told) {
      EXPECT_FALSE(result) << "it is told once";
      result = std::move(told);
    };
  }
  ErrorCode code() const { return result && !result->ok() ? result->error().code : ErrorCode(); }
};

class PeerVolumesTest : public testing::Test {
 protected:
  PeerVolumesTest() {
    access_.add_tenant(kRed, "red team");
    volumes_.emplace(PeerVolumes::Uses{
        access_,
        [this](auto work, auto then) {
          if (!takes_work_) return false;
          work();
          then();
          return true;
        },
        [this] { return keeper_; },
        [this](std::string target, std::function<void(Result<http::Response>)> done) {
          asked_.push_back(std::move(target));
          if (holds_) {
            held_ = std::move(done);
            return;
          }
          ASSERT_FALSE(answers_.empty()) << asked_.back();
          Result<http::Response> next = std::move(answers_.front());
          answers_.pop_front();
          done(std::move(next));
        }});
  }

  using Volumes = std::map<VolumeName, VolumeStatus>;
  using Files = std::vector<VolumeFile>;
  Told<Volumes> list() {
    Told<Volumes> told;
    volumes_->list(told.callback());
    return told;
  }
  Told<Files> list_files() {
    Told<Files> told;
    volumes_->list_files(kWeights, told.callback());
    return told;
  }
  Told<std::string> read(const std::string& path = "a") {
    Told<std::string> told;
    volumes_->read(kWeights, {path, Bytes(9), kDigest}, Bytes(2), Bytes(3), told.callback());
    return told;
  }
  static http::Response part(const std::string& bytes, const std::string& of) {
    http::Response response = answer(200, bytes);
    response.headers.add("X-Lambent-Digest", crypto::to_hex(crypto::sha256(of)));
    return response;
  }

  FakeAccess access_;
  std::string keeper_ = "node-1";
  bool takes_work_ = true;
  bool holds_ = false;
  std::function<void(Result<http::Response>)> held_;
  std::deque<Result<http::Response>> answers_;
  std::vector<std::string> asked_;
  std::optional<PeerVolumes> volumes_;
};

TEST_F(PeerVolumesTest, AListIsOfTheTenantsThatAreKnownHere) {
  const VolumeStatus weights{.name = "weights", .files = 2, .size = Bytes(13), .version = kVersion};
  const VolumeList told = volume_list_of({{"red team", weights}, {"blue", weights}});
  answers_ = {answer(200, json_text_of(told)), answer(304), answer(200, json_text_of(told))};
  const auto first = list();
  ASSERT_TRUE(first.result && first.result->ok());
  EXPECT_EQ(**first.result, (Volumes{{kWeights, weights}}));
  // A tenant that came since then has its volumes, though nothing is told again.
  access_.add_tenant(TenantId(8), "blue");
  EXPECT_EQ((*list().result)->size(), 2u);
  keeper_ = "node-2";
  EXPECT_TRUE(list().result->ok());
  EXPECT_THAT(asked_,
              ElementsAre("/v1/cluster/volumes?known=", "/v1/cluster/volumes?known=" + told.version,
                          "/v1/cluster/volumes?known="));
}

TEST_F(PeerVolumesTest, AnAnswerThatIsNoListIsNone) {
  answers_ = {Error{ErrorCode::kUnavailable, "down"}, answer(404), answer(500), answer(200, "[]"),
              answer(304)};
  EXPECT_EQ(list().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(list().code(), ErrorCode::kUnimplemented);
  EXPECT_EQ(list().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(list().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(list().code(), ErrorCode::kUnavailable) << "the same as what, if nothing is known";
}

TEST_F(PeerVolumesTest, FilesComeInPages) {
  answers_ = {answer(200, page(kVersion, {"a", "b/c d"}, false)),
              answer(200, page(kVersion, {"e"}, true))};
  const auto files = list_files();
  ASSERT_TRUE(files.result && files.result->ok());
  EXPECT_EQ((*files.result)->size(), 3u);
  EXPECT_THAT(asked_, ElementsAre("/v1/cluster/volumes/red%20team/weights/files?after=",
                                  "/v1/cluster/volumes/red%20team/weights/files?after=b%2Fc%20d"));
}

TEST_F(PeerVolumesTest, FilesThatChangeMeanwhileAreReadAgain) {
  answers_ = {answer(200, page(kVersion, {"a", "b"}, false)),
              answer(200, page(kOtherVersion, {"c"}, true)),
              answer(200, page(kOtherVersion, {"b"}, false)),
              answer(200, page(kOtherVersion, {"c"}, true))};
  const auto files = list_files();
  ASSERT_TRUE(files.result && files.result->ok());
  EXPECT_EQ((*files.result)->size(), 2u);
  EXPECT_EQ((*files.result)->front().path, "b");
}

TEST_F(PeerVolumesTest, FilesThatNeverRestAreGivenUp) {
  for (int i = 0; i < 100; ++i) {
    answers_.push_back(answer(200, page(i % 2 == 0 ? kVersion : kOtherVersion, {"a"}, false)));
  }
  const auto files = list_files();
  EXPECT_EQ(files.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(files.result->error().message, HasSubstr("change while they are listed"));
  EXPECT_EQ(asked_.size(), 10u);
}

TEST_F(PeerVolumesTest, PagesThatDoNotGoOnAreGivenUp) {
  for (int i = 0; i < 100; ++i) answers_.push_back(answer(200, page(kVersion, {"a"}, false)));
  EXPECT_EQ(list_files().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(asked_.size(), 10u);
}

TEST_F(PeerVolumesTest, MoreFilesThanAVolumeMayHaveAreGivenUp) {
  std::vector<std::string> paths(limits::kVolumeFilesPerPage);
  size_t number = 1'000'000;
  for (size_t i = 0; i <= limits::kFilesPerVolume / limits::kVolumeFilesPerPage; ++i) {
    for (std::string& path : paths) path = std::to_string(number++);
    answers_.push_back(answer(200, page(kVersion, paths, false)));
  }
  const auto files = list_files();
  EXPECT_EQ(files.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(files.result->error().message, HasSubstr("more files than a volume may have"));
  EXPECT_TRUE(answers_.empty()) << "not before";
}

TEST_F(PeerVolumesTest, AnAnswerThatIsNoPageIsNone) {
  answers_ = {Error{ErrorCode::kUnavailable, "down"}, answer(404), answer(500), answer(200, "{}"),
              answer(200, page(kVersion, {"../../etc/passwd"}, true))};
  EXPECT_EQ(list_files().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(list_files().code(), ErrorCode::kNotFound);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(list_files().code(), ErrorCode::kUnavailable);
}

TEST_F(PeerVolumesTest, APartIsTakenWithItsDigest) {
  answers_ = {part("abc", "abc")};
  const auto got = read("b/c d");
  ASSERT_TRUE(got.result && got.result->ok());
  EXPECT_EQ(**got.result, "abc");
  EXPECT_THAT(asked_,
              ElementsAre("/v1/cluster/volumes/red%20team/weights/content?path=b%2Fc%20d&sha256=" +
                          kDigest + "&offset=2&count=3"));
}

TEST_F(PeerVolumesTest, APartThatIsNotTheOneIsRefused) {
  answers_ = {part("abc", "abd"), part("abcd", "abcd"),
              part("", ""),       answer(200, "abc"),
              answer(409),        answer(404),
              answer(500),        Error{ErrorCode::kUnavailable, "down"}};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(read().code(), ErrorCode::kDataLoss) << i;
  EXPECT_EQ(read().code(), ErrorCode::kAborted);
  EXPECT_EQ(read().code(), ErrorCode::kNotFound);
  EXPECT_EQ(read().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(read().code(), ErrorCode::kUnavailable);
  takes_work_ = false;
  answers_ = {part("abc", "abc")};
  EXPECT_EQ(read().code(), ErrorCode::kUnavailable);
}

TEST_F(PeerVolumesTest, AnAnswerThatComesAfterItsEndIsDropped) {
  holds_ = true;
  Told<Volumes> volumes;
  volumes_->list(volumes.callback());
  const auto first = std::move(held_);
  Told<Files> files;
  volumes_->list_files(kWeights, files.callback());
  volumes_.reset();
  first(answer(200, json_text_of(volume_list_of({}))));
  held_(answer(200, page(kVersion, {"a"}, true)));
  EXPECT_FALSE(volumes.result);
  EXPECT_FALSE(files.result);
}

}  // namespace
}  // namespace lambent::frontend
