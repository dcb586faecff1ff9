#include "node/images/store.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/base/log.h"
#include "core/base/time.h"
#include "node/images/pull_failure.h"

namespace lambent::images {
namespace {

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

TEST(PullFailureTest, SaysWhatTheCallerCanDo) {
  const std::pair<const char*, ErrorCode> said[] = {
      {"level=fatal msg=\"Error parsing image: manifest unknown\"", ErrorCode::kInvalidArgument},
      {"unauthorized: authentication required", ErrorCode::kPermissionDenied},
      {"dial tcp 127.0.0.1:1: connect: connection refused", ErrorCode::kUnavailable},
      {"lookup nowhere.invalid: no such host", ErrorCode::kUnavailable},
      {"write /x: no space left on device", ErrorCode::kStorageFull},
      {"choosing image: no image found in manifest list for architecture amd64",
       ErrorCode::kInvalidArgument},
      {"open /opt/lambent/source/index.json: permission denied", ErrorCode::kFailedPrecondition},
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
