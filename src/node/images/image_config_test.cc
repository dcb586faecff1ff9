#include "node/images/image_config.h"

#include <gtest/gtest.h>

#include "node/images/pull_order.h"

namespace lambent::images {
namespace {

constexpr char kConfig[] = R"({"architecture": "amd64", "os": "linux", "config": {
  "Entrypoint": ["/bin/server"], "Cmd": ["--port", "80"], "Env": ["PATH=/bin", "A=b=c", "=x", "odd"],
  "WorkingDir": "/srv//./app/../data", "User": "app:staff",
  "ExposedPorts": {"443/tcp": {}, "80": {}, "53/udp": {}, "0/tcp": {}, "x/tcp": {}}}})";

TEST(ImageConfigTest, SaysWhatStartsAndHow) {
  const auto config = parse_image_config(kConfig);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->architecture, "amd64");
  EXPECT_EQ(config->entry_point, (std::vector<std::string>{"/bin/server"}));
  EXPECT_EQ(config->command, (std::vector<std::string>{"--port", "80"}));
  EXPECT_EQ(config->environment,
            (std::map<std::string, std::string>{{"PATH", "/bin"}, {"A", "b=c"}}));
  EXPECT_EQ(config->working_directory, "/srv/data");
  EXPECT_EQ(config->user, "app:staff");
  EXPECT_EQ(config->ports, (std::vector<unsigned>{80, 443}));
}

TEST(ImageConfigTest, WhatIsMissingIsEmpty) {
  for (const char* text : {"{}", R"({"config": null})", R"({"config": {"Cmd": null}})"}) {
    const auto config = parse_image_config(text);
    ASSERT_TRUE(config.ok()) << text;
    EXPECT_EQ(config->working_directory, "/");
    EXPECT_TRUE(config->entry_point.empty());
  }
}

TEST(ImageConfigTest, WhatIsOfAnotherTypeOrTooLargeIsRefused) {
  const std::string large = R"({"config": {"Cmd": [")" + std::string(100'000, 'x') + "\"]}}";
  for (const std::string& text :
       {std::string("["), std::string("7"), std::string(R"({"config": 7})"),
        std::string(R"({"config": {"Cmd": "x"}})"), std::string(R"({"config": {"Env": [7]}})"),
        std::string(R"({"config": {"User": 1000}})"), std::string(R"({"os": "a\u0000b"})"),
        std::string(R"({"config": {"Cmd": ["a\u0000b"]}})"), large}) {
    const auto config = parse_image_config(text);
    ASSERT_FALSE(config.ok()) << text.substr(0, 80);
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ImageConfigTest, AWorkingDirectoryNeverLeavesTheRoot) {
  const auto config = parse_image_config(R"({"config": {"WorkingDir": "../../a/../../b"}})");
  EXPECT_EQ(config->working_directory, "/b");
}

TEST(ImageConfigTest, ItsLayersAreThoseThatAreNamedByADigest) {
  const std::string one = "sha256:" + std::string(64, '1'), two = "sha256:" + std::string(64, '2');
  const auto config = parse_image_config(R"({"rootfs": {"diff_ids": [")" + one + R"(", 7, "x", ")" +
                                         two + R"("]}})");
  EXPECT_EQ(config->layers, (std::vector<std::string>{one, two}));
  for (const char* text : {R"({"rootfs": 7})", R"({"rootfs": {"diff_ids": "x"}})"}) {
    EXPECT_TRUE(parse_image_config(text)->layers.empty()) << text;
  }
  EXPECT_EQ(layers_of_manifest(R"({"layers": [{"digest": ")" + two + R"("}, {}, 7]})"),
            (std::vector<std::string>{two}));
  for (const char* text : {"", "[]", R"({"layers": 7})"})
    EXPECT_TRUE(layers_of_manifest(text).empty());
}

TEST(ImageConfigTest, OfAnIndexTheManifestForThisMachineCounts) {
  const std::string one = "sha256:" + std::string(64, '1'), two = "sha256:" + std::string(64, '2');
  const std::string index =
      R"({"manifests": [7, {"digest": ")" + one +
      R"(", "platform": {"os": "linux", "architecture": "arm64"}}, {"digest": ")" + two +
      R"(", "platform": {"os": "linux", "architecture": "amd64"}}]})";
  EXPECT_EQ(manifest_for(index, "amd64"), two);
  EXPECT_EQ(manifest_for(index, "arm64"), one);
  EXPECT_EQ(manifest_for(index, "s390x"), "");
  for (const char* text : {"", "{}", R"({"manifests": {}})"})
    EXPECT_EQ(manifest_for(text, "amd64"), "");
}

TEST(ImageConfigTest, AnIndexAndAManifestNameOneDigest) {
  const std::string digest = "sha256:" + std::string(64, '0');
  EXPECT_EQ(*parse_image_index(R"({"manifests": [{"digest": ")" + digest + "\"}]}"), digest);
  EXPECT_EQ(*parse_image_manifest(R"({"config": {"digest": ")" + digest + "\"}}"), digest);
  for (const char* text : {"", "{}", R"({"manifests": []})", R"({"manifests": [{}, {}]})",
                           R"({"manifests": [{"digest": "sha256:../../etc/passwd"}]})"}) {
    EXPECT_FALSE(parse_image_index(text).ok()) << text;
  }
  EXPECT_FALSE(parse_image_manifest(R"({"config": {"digest": "sha512:1"}})").ok());
}

TEST(FindUserTest, FindsItByNameAndByNumber) {
  constexpr char kPasswd[] = "root:x:0:0::/root:/bin/sh\nshort\napp:x:1000:1000::/home/app:\n";
  EXPECT_EQ(*find_user("", kPasswd), (ImageUser{0, "/root"}));
  EXPECT_EQ(*find_user("app", kPasswd), (ImageUser{1000, "/home/app"}));
  EXPECT_EQ(*find_user("1000:1000", kPasswd), (ImageUser{1000, "/home/app"}));
  EXPECT_EQ(*find_user("1234", kPasswd), (ImageUser{1234, "/"}));
  EXPECT_EQ(*find_user("", ""), (ImageUser{0, "/"}));
  for (const char* user : {"ghost", "-1", "4294967295", "99999999999"}) {
    EXPECT_FALSE(find_user(user, kPasswd).ok()) << user;
  }
}

TEST(PullOrderTest, OrdersAndReportsComeBackAsTheyWere) {
  PullOrder order{.folder = "/state/images",
                  .work = "pull-1",
                  .skopeo = "/usr/bin/skopeo",
                  .umoci = "/usr/bin/umoci",
                  .auth_file = "/etc/auth.json",
                  .auth = R"({"auths":{}})",
                  .proves = true,
                  .reference = "ghcr.io/a/b:1",
                  .local_path = "",
                  .is_copy = true,
                  .keeps_layout = true,
                  .plain_http = true,
                  .variables = {"HTTPS_PROXY=http://proxy"},
                  .most = Bytes::gib(1),
                  .timeout = seconds(7)};
  EXPECT_EQ(*parse_pull_order(to_json(order)), order);
  EXPECT_FALSE(parse_pull_order("{}").ok());
  PulledImage image{.digest = "sha256:" + std::string(64, 'b'),
                    .size = Bytes(123),
                    .config = *parse_image_config(kConfig),
                    .user = {1000, "/home/app"},
                    .c_library = {"glibc", "2.36"}};
  const auto again = parse_pulled_image(to_json(image));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, image);
  EXPECT_FALSE(parse_pulled_image(R"({"digest": "sha256:1"})").ok());
}

TEST(PullOrderTest, TheDigestIsThatOfTheFunctionsCode) {
  EXPECT_EQ(code_sha256_of("sha256:" + std::string(64, '0')),
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
  EXPECT_EQ(key_of("sha256:" + std::string(64, 'f')),
            "__________________________________________8");
}

}  // namespace
}  // namespace lambent::images
