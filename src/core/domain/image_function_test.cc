#include "core/domain/image_function.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

TEST(ImageReference, NamesARegistryARepositoryATagAndADigest) {
  const auto reference = parse_image_reference("docker://ghcr.io/owner/app:1.2@" + kDigest);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  EXPECT_EQ(reference->name, "ghcr.io/owner/app");
  EXPECT_EQ(reference->tag, "1.2");
  EXPECT_EQ(reference->digest, kDigest);
  EXPECT_EQ(reference->registry(), "ghcr.io");
  EXPECT_EQ(text_of(*reference), "ghcr.io/owner/app:1.2@" + kDigest);
}

TEST(ImageReference, APortIsNoTag) {
  const auto reference = parse_image_reference("localhost:5000/app");
  ASSERT_TRUE(reference.ok());
  EXPECT_EQ(reference->name, "localhost:5000/app");
  EXPECT_EQ(reference->tag, "");
  EXPECT_EQ(reference->registry(), "localhost:5000");
  EXPECT_EQ(parse_image_reference("nginx:1")->registry(), "docker.io");
}

TEST(ImageReference, NamesAFolderOrAnArchiveOfTheWorkersMachine) {
  for (const char* text : {"oci:/srv/image:tag", "oci-archive:/srv/a.tar", "docker-archive:a.tar:x",
                           "oci:/srv/image"}) {
    const auto reference = parse_image_reference(text);
    ASSERT_TRUE(reference.ok()) << text;
    EXPECT_TRUE(reference->is_local());
    EXPECT_EQ(text_of(*reference), text);
  }
}

TEST(ImageReference, WhatIsNoNameIsRefused) {
  const std::vector<std::string> texts = {"",
                                          "Upper/Case",
                                          "a//b",
                                          "/a",
                                          "a/",
                                          "a:",
                                          "a:.b",
                                          "a:b c",
                                          "a@sha256:12",
                                          "oci:",
                                          "oci:a b",
                                          "-a",
                                          "a/-b",
                                          "host:port/a",
                                          "a@b@" + kDigest,
                                          std::string(2000, 'a')};
  for (const std::string& text : texts) {
    const auto reference = parse_image_reference(text);
    ASSERT_FALSE(reference.ok()) << text;
    EXPECT_EQ(reference.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ImageCommand, IsTheLineOfDockerRun) {
  ImageCommand command;
  command.image = *parse_image_reference("ghcr.io/owner/app:1@" + kDigest);
  command.entry_point = {"/bin/python", "-m", "a b"};
  command.command = {"app.handler", "--port=1", ""};
  command.working_directory = "/srv/my app";
  const auto again = parse_image_command(text_of(command));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, command);
}

TEST(ImageCommand, AnEmptyEntryPointIsNotTheImages) {
  ImageCommand command;
  command.image = *parse_image_reference("app");
  command.entry_point.emplace();
  EXPECT_EQ(text_of(command), "--entrypoint app");
  EXPECT_EQ(*parse_image_command(text_of(command)), command);
  EXPECT_EQ(parse_image_command("app")->entry_point, std::nullopt);
}

TEST(ImageCommand, BadLinesAreRefused) {
  for (const char* line :
       {"", "--privileged app", "--workdir=here app", "--entrypoint=a", "App", "\"app"}) {
    EXPECT_FALSE(parse_image_command(line).ok()) << line;
  }
}

}  // namespace
}  // namespace lambent
