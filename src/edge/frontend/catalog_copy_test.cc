#include "edge/frontend/catalog_copy.h"

#include <gtest/gtest.h>

#include "core/domain/image_function.h"
#include "core/domain/layer.h"

namespace lambent::frontend {
namespace {

const std::string kVolume = volume_of_layers(std::string(kLayersDigestLength, 'a'));

FunctionSpec layered() {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, "layered"};
  spec.runtime_name = "python3.11";
  spec.handler = "app.handler";
  spec.code_sha256 = "abc=";
  spec.tags = {{std::string(kLayersTag), "words:3"}, {"lambent:mounts", "weights:/weights"}};
  spec.mounts = {{.volume = "weights", .host = {}, .at = "/weights"},
                 {.volume = kVolume, .host = {}, .at = "/opt/python"},
                 {.volume = kVolume, .host = {}, .at = "/opt/lib"}};
  return spec;
}

TEST(CatalogCopyTest, AFunctionHasTheSameLayersOnAnotherNode) {
  const nlohmann::json copy = copy_of(layered());
  const auto read = read_copy(copy, kDefaultTenant);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->mounts, layered().mounts);
  EXPECT_EQ(read->tags, layered().tags);
  EXPECT_EQ(digest_of_copy(copy_of(*read)), digest_of_copy(copy));
  FunctionSpec other = layered();
  other.mounts.pop_back();
  EXPECT_NE(digest_of_copy(copy_of(other)), digest_of_copy(copy));
}

TEST(CatalogCopyTest, OnlyMountsOfLayersComeBesideTheTags) {
  nlohmann::json copy = copy_of(layered());
  for (const std::string& wrong :
       {std::string("weights:/opt/python"), kVolume + ":/etc", std::string("/etc:/opt/etc"),
        kVolume + ":/opt/lib," + kVolume + ":/opt/lib", std::string("layers")}) {
    copy["LayerMounts"] = wrong;
    EXPECT_FALSE(read_copy(copy, kDefaultTenant).ok()) << wrong;
  }
  copy["LayerMounts"] = 7;
  EXPECT_FALSE(read_copy(copy, kDefaultTenant).ok());
}

TEST(CatalogCopyTest, AFunctionHasTheSameImageOnAnotherNode) {
  const std::string digest = "@sha256:" + std::string(64, 'a');
  for (const std::string& line :
       {"oci:/images/layout:server" + digest, "docker-archive:/images/a.tar" + digest,
        "--entrypoint=/bin/sh --workdir=/data ghcr.io/owner/app:1" + digest + " -c 'echo it'"}) {
    FunctionSpec spec;
    spec.name = {kDefaultTenant, "served"};
    spec.runtime_name = kImageRuntime;
    spec.handler = text_of(*parse_image_command(line));
    spec.code_sha256 = "abc=";
    const nlohmann::json copy = copy_of(spec);
    const auto read = read_copy(copy, kDefaultTenant);
    ASSERT_TRUE(read.ok()) << to_string(read.error());
    EXPECT_EQ(read->handler, spec.handler);
    EXPECT_EQ(read->runtime_name, kImageRuntime);
    EXPECT_EQ(read->code_sha256, "abc=");
    EXPECT_EQ(digest_of_copy(copy_of(*read)), digest_of_copy(copy));
    nlohmann::json wrong = copy;
    wrong["ImageCommand"] = "'";
    EXPECT_FALSE(read_copy(wrong, kDefaultTenant).ok());
    wrong.erase("ImageCommand");
    EXPECT_FALSE(read_copy(wrong, kDefaultTenant).ok());
  }
}

}  // namespace
}  // namespace lambent::frontend
