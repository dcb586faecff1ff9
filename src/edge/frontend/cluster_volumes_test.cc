// What a node that keeps volumes tells others.
#include "edge/frontend/cluster_volumes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "core/domain/volume_source.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/testing/fake_access.h"
#include "edge/frontend/testing/fake_volumes.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr TenantId kTold(7);
const std::string kRoot = "/v1/cluster/volumes";

class ClusterVolumesTest : public testing::Test {
 protected:
  ClusterVolumesTest() {
    access_.add_tenant(kTold, "red");
    volumes_.volumes[{kTold, "weights"}] = {{"a", "alpha"}, {"b/c", "beta"}};
  }

  http::Response get(const std::string& target) {
    auto seen = std::make_shared<Exchanged>();
    const http::Request request = request_of("GET", target);
    const auto parts = path_parts(http::path_of(request.target));
    frontend_.handle(request, *parts, responder_to(seen));
    EXPECT_TRUE(seen->response) << target;
    return seen->response.value_or(http::Response{.status = 0});
  }
  static std::string part_of(const std::string& path, const std::string& content,
                             const std::string& offset, const std::string& count) {
    return kRoot + "/red/weights/content?path=" + http::percent_encode(path) +
           "&sha256=" + http::percent_encode("digest of " + content) + "&offset=" + offset +
           "&count=" + count;
  }

  FakeAccess access_;
  FakeVolumes volumes_;
  bool takes_work_ = true;
  ClusterVolumes frontend_{volumes_, access_, [this](auto work, auto then) {
                             if (!takes_work_) return false;
                             work();
                             then();
                             return true;
                           }};
};

TEST_F(ClusterVolumesTest, TheListIsOfAllTenantsAndNotToldAgain) {
  volumes_.volumes[{kDefaultTenant, "own"}] = {};
  const http::Response first = get(kRoot);
  ASSERT_EQ(first.status, 200);
  const json list = json::parse(first.body);
  EXPECT_EQ(list["volumes"].size(), 2u);
  const std::string known = kRoot + "?known=" + list["version"].get<std::string>();
  const http::Response same = get(known);
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  volumes_.volumes[{kTold, "other"}] = {};
  EXPECT_EQ(get(known).status, 200);
}

TEST_F(ClusterVolumesTest, FilesAreToldAPageAtATime) {
  const json all = json::parse(get(kRoot + "/red/weights/files?after=").body);
  EXPECT_EQ(all["files"].size(), 2u);
  EXPECT_EQ(all["is_last"], true) << all;
  const json rest = json::parse(get(kRoot + "/red/weights/files?after=a").body);
  ASSERT_EQ(rest["files"].size(), 1u);
  for (size_t i = 0; i < limits::kVolumeFilesPerPage; ++i) {
    volumes_.volumes[{kTold, "weights"}]["many/" + std::to_string(i)] = "";
  }
  const json page = json::parse(get(kRoot + "/red/weights/files?after=").body);
  EXPECT_EQ(page["files"].size(), limits::kVolumeFilesPerPage);
  EXPECT_EQ(page["is_last"], false);
}

TEST_F(ClusterVolumesTest, APartComesWithItsDigest) {
  const http::Response part = get(part_of("b/c", "beta", "1", "3"));
  EXPECT_EQ(part.status, 200);
  EXPECT_EQ(part.body, "eta");
  EXPECT_EQ(part.headers.get("X-Lambent-Digest"), crypto::to_hex(crypto::sha256("eta")));
  EXPECT_EQ(volumes_.live_transfers, 0);
}

TEST_F(ClusterVolumesTest, AnotherFileUnderThatPathIsToldAsSuch) {
  EXPECT_EQ(get(part_of("a", "beta", "0", "1")).status, 409);
  EXPECT_EQ(get(part_of("a", "alpha", "5", "1")).status, 409) << "at its end";
  EXPECT_EQ(get(part_of("a", "alpha", "4", "2")).status, 409) << "over its end";
  EXPECT_EQ(get(part_of("a", "alpha", "18446744073709551615", "2")).status, 409);
  EXPECT_EQ(get(part_of("a", "alpha", "4", "1")).status, 200);
  EXPECT_EQ(get(part_of("gone", "alpha", "0", "1")).status, 404);
}

TEST_F(ClusterVolumesTest, WhatIsNoPartIsRefused) {
  const std::string most = std::to_string(kVolumePart.count);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"0", "0"},   {"0", std::to_string(kVolumePart.count + 1)},
      {"0", ""},    {"", "1"},
      {"-1", "1"},  {"0", "1x"},
      {"1.5", "1"}, {"0", "18446744073709551616"}};
  for (const auto& [offset, count] : wrong) {
    EXPECT_EQ(get(part_of("a", "alpha", offset, count)).status, 400) << offset << " " << count;
  }
  EXPECT_EQ(get(part_of("a", "alpha", "0", most)).status, 409) << "a part, but not of this file";
}

TEST_F(ClusterVolumesTest, WhatIsNotThereIsNotFound) {
  for (const char* rest : {"/blue/weights/files", "/red/none/files", "/red/weights",
                           "/red/weights/other", "/red", "/red/weights/files/more"}) {
    EXPECT_EQ(get(kRoot + rest).status, 404) << rest;
  }
}

TEST_F(ClusterVolumesTest, TooManyPartsAtOnceAreToldToComeAgain) {
  takes_work_ = false;
  EXPECT_EQ(get(part_of("a", "alpha", "0", "1")).status, 503);
}

}  // namespace
}  // namespace lambent::frontend
