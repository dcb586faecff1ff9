#include "node/images/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/testing/testing.h"
#include "core/base/time.h"
#include "node/images/pull_failure.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

PulledImage image() {
  PulledImage image;
  image.digest = "sha256:" + std::string(64, 'a');
  image.config.entry_point = {"/bin/server"};
  image.config.command = {"--verbose"};
  image.config.environment = {{"PATH", "/bin"}};
  image.config.working_directory = "/srv";
  image.user = {1000, "/home/app"};
  return image;
}

ImageCommand line(const std::string& text) { return *parse_image_command(text); }

TEST(StartOfTest, TheImageSaysWhatStarts) {
  const auto start = start_of(image(), line("app"));
  ASSERT_TRUE(start.ok());
  EXPECT_EQ(start->command, (Words{"/bin/server", "--verbose"}));
  EXPECT_EQ(start->working_directory, "/srv");
  EXPECT_EQ(start->user, 1000);
  EXPECT_EQ(start->environment.at("HOME"), "/home/app");
}

TEST(StartOfTest, TheFunctionSaysOtherwiseAsDockerRunDoes) {
  EXPECT_EQ(start_of(image(), line("app serve now"))->command,
            (Words{"/bin/server", "serve", "now"}));
  EXPECT_EQ(start_of(image(), line("--entrypoint=/bin/sh app -c x"))->command,
            (Words{"/bin/sh", "-c", "x"}));
  // The image's words are meant for the image's entry point.
  EXPECT_EQ(start_of(image(), line("--entrypoint=/bin/sh app"))->command, (Words{"/bin/sh"}));
  EXPECT_EQ(start_of(image(), line("--workdir=/data app"))->working_directory, "/data");
}

TEST(StartOfTest, AnImageThatStartsNothingIsRefused) {
  PulledImage nothing = image();
  nothing.config.entry_point.clear();
  nothing.config.command.clear();
  EXPECT_EQ(start_of(nothing, line("app")).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(start_of(nothing, line("app /bin/true"))->command, (Words{"/bin/true"}));
  EXPECT_FALSE(start_of(image(), line("--entrypoint app")).ok());
}

TEST(CheckRegistryTest, ThoseOfThisHostAreNamedOrNotPulled) {
  const auto of = [](const char* text) { return *parse_image_reference(text); };
  EXPECT_TRUE(check_registry(of("ghcr.io/a/b"), {}).ok());
  EXPECT_TRUE(check_registry(of("nginx"), {}).ok());
  EXPECT_TRUE(check_registry(of("oci:/srv/a"), {"ghcr.io"}).ok());
  for (const char* text : {"localhost:5000/a", "127.0.0.1:5000/a", "127.1.2.3/a"}) {
    EXPECT_EQ(check_registry(of(text), {}).error().code, ErrorCode::kPermissionDenied) << text;
  }
  EXPECT_TRUE(check_registry(of("localhost:5000/a"), {"localhost:5000"}).ok());
  EXPECT_TRUE(check_registry(of("ghcr.io/owner/a"), {"quay.io", "ghcr.io/owner"}).ok());
  EXPECT_FALSE(check_registry(of("ghcr.io/owner2/a"), {"ghcr.io/owner"}).ok());
  EXPECT_FALSE(check_registry(of("nginx"), {"ghcr.io"}).ok());
}

TEST(RegistryCredentialsTest, OnlyNamesAndPasswordsAreTaken) {
  EXPECT_EQ(
      *registry_credentials(R"({"auths":{"ghcr.io":{"auth":"bWU6cHc=","email":"e"},"quay.io":{}},)"
                            R"("credsStore":"evil","credHelpers":{"a":"evil"}})"),
      R"({"auths":{"ghcr.io":{"auth":"bWU6cHc="}}})");
  for (const std::string& text :
       {std::string(), std::string("password"), std::string(R"({"auths":{}})"),
        std::string(R"({"auths":{"ghcr.io":{"auth":7}}})"),
        std::string(R"({"credHelpers":{"ghcr.io":"evil"}})"), std::string(70'000, '{')}) {
    const auto wrong = registry_credentials(text);
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(wrong.error().message.find("password"), std::string::npos);
  }
}

TEST(CheckForGpuTest, TheDriverNeedsItsCLibrary) {
  PulledImage one = image();
  one.c_library = {"glibc", "2.36"};
  EXPECT_TRUE(check_for_gpu(one, "2.34").ok());
  one.c_library = {"glibc", "2.31"};
  EXPECT_EQ(check_for_gpu(one, "2.34").error().code, ErrorCode::kFailedPrecondition);
  one.c_library = {"musl", ""};
  EXPECT_FALSE(check_for_gpu(one, "2.34").ok());
  one.c_library = {};
  EXPECT_FALSE(check_for_gpu(one, "2.34").ok());
}

// A store that pulls nothing, for want of skopeo, and other nodes that answer as a test says.
class ImageSourceTest : public testing::Test {
 protected:
  ImageSourceTest() {
    store_.set_source(
        {.bring = [this](const std::string&, auto done) { done(elsewhere_); },
         .release = [this](const std::string& digest) { released_.push_back(digest); }});
  }
  Error ensure(const std::string& local_path) {
    std::optional<Error> told;
    store_.ensure(*parse_image_reference("oci:/srv/app@" + digest_), local_path,
                  {.is_elsewhere = true}, [&](const auto& image) { told = image.error(); });
    return told.value_or(Error{ErrorCode::kInternal, "no answer"});
  }

  const std::string digest_ = "sha256:" + std::string(64, 'a');
  Result<std::string> elsewhere_ = std::string("/layout");
  Words released_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
  ImageStore store_{loop_, log_, [](auto, auto) { return false; }, {}};
};

TEST_F(ImageSourceTest, WhileANodeThatMayHaveTheImageIsSilentNothingElseIsTried) {
  elsewhere_ = Error{ErrorCode::kUnavailable, "node 'b' does not answer"};
  const Error told = ensure("/srv/app");
  EXPECT_EQ(told.code, ErrorCode::kUnavailable);
  EXPECT_NE(told.message.find("node 'b' does not answer"), std::string::npos) << told.message;
  EXPECT_EQ(told.message.find("skopeo"), std::string::npos) << told.message;
}

TEST_F(ImageSourceTest, WhatIsWrongWithTheImageHereDoesNotEndAttemptsToGetItFromElsewhere) {
  elsewhere_ = Error{ErrorCode::kNotFound, "no other node has it"};
  const Error told = ensure("/srv/app");
  EXPECT_EQ(told.code, ErrorCode::kUnavailable);
  EXPECT_NE(told.message.find("no other node has it (on this one: "), std::string::npos)
      << told.message;
  EXPECT_NE(told.message.find("skopeo"), std::string::npos) << "it was tried: " << told.message;
  EXPECT_EQ(ensure("").code, ErrorCode::kUnavailable);
}

TEST_F(ImageSourceTest, ALayoutThatCameAndCannotBeUnpackedIsNotKept) {
  EXPECT_EQ(ensure("").code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(released_, Words{digest_});
}

// What an earlier worker pulled, with its layout.
class KeptLayoutTest : public testing::Test {
 protected:
  KeptLayoutTest() {
    PulledImage kept = image();
    kept.size = Bytes::mib(3);
    const std::string ready = folder_ / "ready/" + key_of(kept.digest);
    layout_ = ready + "/layout";
    fs::create_directories(layout_ + "/blobs/sha256");
    std::ofstream(ready + "/report.json") << to_json(kept);
    for (const char* file : {"/index.json", "/oci-layout"}) std::ofstream(layout_ + file) << "{}";
    std::ofstream(blob_of('b')) << "a layer";
    std::ofstream(folder_ / "elsewhere") << "of the host";
  }
  std::string blob_of(char letter) const {
    return layout_ + "/blobs/sha256/" + std::string(64, letter);
  }
  // How many files of its layouts are shown.
  size_t shown() {
    ImageStore store(loop_, log_, offload(), options());
    EXPECT_TRUE(store.recover().ok());
    size_t files = 0;
    for (const SharedFolder& each : store.layouts()) files += each.files.size();
    return files;
  }
  ImageOptions options() const {
    ImageOptions options;
    options.folder = folder_.path();
    options.program = folder_ / "pull";
    options.skopeo = options.umoci = "/usr/bin/true";
    options.most = Bytes::mib(5);
    return options;
  }
  static ImageStore::Offload offload() {
    return [](auto work, auto then) {
      work();
      then();
      return true;
    };
  }

  const TemporaryFolder folder_;
  std::string layout_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
};

TEST_F(KeptLayoutTest, IsShownWithoutLinks) {
  EXPECT_EQ(shown(), 3u);
  fs::create_symlink(folder_ / "elsewhere", blob_of('c'));
  EXPECT_EQ(shown(), 0u) << "a blob";
  fs::remove(blob_of('c'));
  fs::remove(layout_ + "/index.json");
  fs::create_symlink(folder_ / "elsewhere", layout_ + "/index.json");
  EXPECT_EQ(shown(), 0u) << "its index";
  fs::remove(layout_ + "/index.json");
  std::ofstream(layout_ + "/index.json") << "{}";
  fs::rename(layout_ + "/blobs", folder_ / "blobs");
  fs::create_symlink(folder_ / "blobs", layout_ + "/blobs");
  EXPECT_EQ(shown(), 0u) << "the folder of its blobs";
}

TEST_F(KeptLayoutTest, StaysForAWhileAfterAnotherNodeHasReadIt) {
  PulledImage newer = image();
  newer.digest = "sha256:" + std::string(64, 'f');
  newer.size = Bytes::mib(3);
  std::ofstream(folder_ / "answer") << "done " << to_json(newer) << "\n";
  std::ofstream(folder_ / "pull") << "#!/bin/sh\nexec cat " << folder_.path() << "/answer\n";
  fs::permissions(folder_ / "pull", fs::perms::owner_all);
  for (const bool is_read : {true, false}) {
    ImageStore store(loop_, log_, offload(), options());
    ASSERT_TRUE(store.recover().ok());
    clock_.advance(ImageStore::kGrace);
    if (is_read) store.note_shown(std::string(64, 'a'));
    std::optional<Result<PulledImage>> pulled;
    store.ensure(*parse_image_reference("oci:/srv/newer"), "/srv/newer", {},
                 [&](const auto& image) { pulled = image; });
    for (int turn = 0; turn < 2000 && !pulled; ++turn) loop_.run_once(milliseconds(1));
    ASSERT_TRUE(pulled);
    // One of both has to go.
    EXPECT_EQ(store.find(image().digest) != nullptr, is_read);
    EXPECT_EQ(pulled->ok(), !is_read);
  }
}

// Of 5 MiB that may be kept.
TEST_F(KeptLayoutTest, WhatAnImageSharesWithAnotherIsCountedOnce) {
  const auto bring = [&](ImageStore& store, char letter, Bytes size, Bytes shared) {
    PulledImage newer = image();
    newer.digest = "sha256:" + std::string(64, letter);
    newer.size = size;
    newer.base = shared.count > 0 ? key_of(image().digest) : "";
    newer.shared = shared;
    std::ofstream(folder_ / "answer") << "done " << to_json(newer) << "\n";
    std::ofstream(folder_ / "pull") << "#!/bin/sh\nexec cat " << folder_.path() << "/answer\n";
    fs::permissions(folder_ / "pull", fs::perms::owner_all);
    std::optional<Result<PulledImage>> pulled;
    store.ensure(*parse_image_reference(std::string("oci:/srv/") + letter),
                 std::string("/srv/") + letter, {}, [&](const auto& one) { pulled = one; });
    for (int turn = 0; turn < 2000 && !pulled; ++turn) loop_.run_once(milliseconds(1));
    return pulled.value_or(Error{ErrorCode::kInternal, "no answer"});
  };
  ImageStore store(loop_, log_, offload(), options());
  ASSERT_TRUE(store.recover().ok());  // 3 MiB
  ASSERT_TRUE(bring(store, 'b', Bytes::mib(4), Bytes::mib(3)).ok());
  EXPECT_NE(store.find(image().digest), nullptr) << "both take 4 MiB";
  store.use(key_of("sha256:" + std::string(64, 'b')));
  clock_.advance(ImageStore::kGrace);
  // The first one goes, and what it shared is the second one's: 4 MiB and 1 MiB.
  ASSERT_TRUE(bring(store, 'c', Bytes::mib(1) + Bytes::kib(1), Bytes()).ok() == false);
  EXPECT_EQ(store.find(image().digest), nullptr);
  EXPECT_TRUE(bring(store, 'd', Bytes::mib(1), Bytes()).ok());
}

// A store whose pulls end as `answer` says, and which writes down each.
class PullAnswersTest : public KeptLayoutTest {
 protected:
  PullAnswersTest() {
    std::ofstream(folder_ / "pull") << "#!/bin/sh\necho >> " << folder_.path()
                                    << "/pulls\nexec cat " << folder_.path() << "/answer\n";
    fs::permissions(folder_ / "pull", fs::perms::owner_all);
  }
  void answers(const std::string& line) { std::ofstream(folder_ / "answer") << line << "\n"; }
  Result<PulledImage> ensure(ImageStore& store, const std::string& reference,
                             const std::string& path, const ImageAccess& access) {
    std::optional<Result<PulledImage>> told;
    store.ensure(*parse_image_reference(reference), path, access,
                 [&](const auto& image) { told = image; });
    for (int turn = 0; turn < 2000 && !told; ++turn) loop_.run_once(milliseconds(1));
    return told.value_or(Error{ErrorCode::kInternal, "no answer"});
  }
  size_t pulls() const {
    const auto text = read_file(folder_ / "pulls", 100);
    return text.ok() ? text->size() : 0;
  }
};

TEST_F(PullAnswersTest, OtherNodesAreAskedForWhatARegistryDoesNotGiveOnly) {
  ImageStore store(loop_, log_, offload(), options());
  unsigned asked = 0;
  Error elsewhere{ErrorCode::kUnavailable, "node 'b' does not answer"};
  store.set_source({.bring =
                        [&](const std::string&, auto done) {
                          ++asked;
                          done(elsewhere);
                        },
                    .release = [](const std::string&) {}});
  const std::string reference = "ghcr.io/a/b@sha256:" + std::string(64, 'e');
  const auto outcome = [&](ErrorCode code) {
    answers("failed " + std::string(name_of(code)) + " why");
    return ensure(store, reference, "", {.is_elsewhere = true}).error();
  };
  // What is wrong with the image itself, with this node or with the request.
  for (const ErrorCode code : {ErrorCode::kInvalidArgument, ErrorCode::kFailedPrecondition,
                               ErrorCode::kStorageFull, ErrorCode::kInternal}) {
    EXPECT_EQ(outcome(code), (Error{code, "why"}));
  }
  EXPECT_EQ(asked, 0U);
  for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kPermissionDenied,
                               ErrorCode::kUnavailable, ErrorCode::kDeadlineExceeded}) {
    EXPECT_EQ(outcome(code).code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(asked, 4U);
  elsewhere = {ErrorCode::kDataLoss, "other bytes came"};
  EXPECT_EQ(outcome(ErrorCode::kPermissionDenied).code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(outcome(ErrorCode::kNotFound).code, ErrorCode::kInvalidArgument) << "as ever";
}

TEST_F(PullAnswersTest, OneThatIsHereWithoutItsLayoutGetsItIfItCanBeHad) {
  fs::rename(layout_, folder_ / "aside");
  ImageOptions keeps = options();
  keeps.keeps_layouts = true;
  ImageStore store(loop_, log_, offload(), keeps);
  ASSERT_TRUE(store.recover().ok());
  const std::string reference = "oci:/srv/app@" + image().digest;
  answers("failed UNAVAILABLE the disk is away");
  const auto without = ensure(store, reference, "/srv/app", {.is_known = true});
  ASSERT_TRUE(without.ok()) << to_string(without.error());
  EXPECT_EQ(without->digest, image().digest);
  EXPECT_EQ(pulls(), 1U);
  EXPECT_FALSE(store.is_whole(image().digest));
  fs::rename(folder_ / "aside", layout_);
  answers("done " + to_json(image()));
  ASSERT_TRUE(ensure(store, reference, "/srv/app", {.is_known = true}).ok());
  EXPECT_EQ(store.layouts().size(), 1U);
  ASSERT_TRUE(ensure(store, reference, "/srv/app", {.is_known = true}).ok());
  EXPECT_EQ(pulls(), 2U) << "and not again";
}

TEST(PullFailureTest, SaysWhatTheCallerCanDo) {
  const std::pair<const char*, ErrorCode> said[] = {
      {"level=fatal msg=\"Error parsing image: manifest unknown\"", ErrorCode::kNotFound},
      {"unauthorized: authentication required", ErrorCode::kPermissionDenied},
      {"dial tcp 127.0.0.1:1: connect: connection refused", ErrorCode::kUnavailable},
      {"lookup nowhere.invalid: no such host", ErrorCode::kUnavailable},
      {"write /x: no space left on device", ErrorCode::kStorageFull},
      {"choosing image: no image found in manifest list for architecture amd64",
       ErrorCode::kInvalidArgument},
      {"open /opt/lambent/source/index.json: permission denied", ErrorCode::kFailedPrecondition},
      {"open /opt/lambent/source/index.json: no such file or directory",
       ErrorCode::kInvalidArgument},
      {"", ErrorCode::kInvalidArgument}};
  for (const auto& [output, code] : said) {
    EXPECT_EQ(pull_failure("app:1", output).code, code) << output;
  }
  EXPECT_EQ(pull_failure("app:1", "noise\nlevel=fatal msg=\"manifest unknown\"\n").message,
            "image app:1: there is no such image or tag: manifest unknown");
  EXPECT_EQ(unpack_failure("app:1", "  \xe2\xa8\xaf a: no such file or directory\n").message,
            "image app:1: its layers cannot be unpacked: a: no such file or directory");
}

}  // namespace
}  // namespace lambent::images
