#include "edge/cli/volumes.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/crypto/crypto.h"
#include "edge/cli/testing/verbs_testing.h"
#include "edge/cli/volume_files.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::string digest_of(const std::string& content) {
  return crypto::to_hex(crypto::sha256(content));
}

class Volumes : public Verbs {
 protected:
  Volumes() {
    std::string name = testing::TempDir() + "/cli-volumes.XXXXXX";
    folder_ = fs::canonical(mkdtemp(name.data()));
  }
  ~Volumes() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << content;
    return folder_ + "/" + name;
  }
  std::string read(const std::string& name) {
    std::ifstream file(folder_ + "/" + name);
    return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "(none)";
  }
  void answer_progress(uint64_t offset, bool complete = false) {
    transport.answer(response(200, json{{"offset", offset}, {"complete", complete}}.dump()));
  }
  void answer_files(const std::vector<std::pair<std::string, std::string>>& files) {
    json list = json::array();
    for (const auto& [path, content] : files) {
      list.push_back(
          {{"path", path}, {"size_bytes", content.size()}, {"sha256", digest_of(content)}});
    }
    transport.answer(response(200, json{{"files", list}}.dump()));
  }
  std::vector<std::string> paths(const std::string& top, const std::string& path = "",
                                 bool follow_links = false) {
    const auto files = files_to_put(folder_ + "/" + top, path, follow_links);
    if (!files.ok()) return {to_string(files.error())};
    std::vector<std::string> list;
    for (const LocalFile& file : *files) list.push_back(file.path);
    return list;
  }

  std::string folder_;
};

TEST_F(Volumes, AFileIsSentWithItsSizeAndDigest) {
  answer_progress(0);
  answer_progress(5, true);
  EXPECT_EQ(run_volumes_put(transport, console,
                            {.volume = "weights", .local = write("a b", "hello"), .path = ""}),
            0)
      << err.str();
  ASSERT_EQ(transport.requests.size(), 2u);
  const std::string query = "?size=5&sha256=" + digest_of("hello");
  EXPECT_EQ(transport.requests[0].target, "/v1/volumes/weights/uploads/a%20b" + query);
  EXPECT_EQ(transport.requests[1].target, "/v1/volumes/weights/files/a%20b" + query + "&offset=0");
  EXPECT_EQ(transport.requests[1].body, "hello");
  EXPECT_EQ(out.str(), "a b  5 B  sent\n");
}

TEST_F(Volumes, OnlyWhatIsMissingIsSent) {
  answer_progress(3);
  answer_progress(5, true);
  write("model/a", "hello");
  write("model/b/c", "same");
  answer_progress(4, true);
  EXPECT_EQ(run_volumes_put(transport, console,
                            {.volume = "w", .local = folder_ + "/model", .path = "v1"}),
            0)
      << err.str();
  ASSERT_EQ(transport.requests.size(), 3u);
  EXPECT_EQ(transport.requests[1].body, "lo");
  EXPECT_THAT(transport.requests[2].target, HasSubstr("/uploads/v1/b/c?"));
  EXPECT_EQ(out.str(), "v1/a  5 B  continued\nv1/b/c  4 B  unchanged\n");
}

TEST_F(Volumes, AnUploadThatBreaksOffGoesOn) {
  answer_progress(0);
  transport.answer(response(503, R"({"error":{"code":"UNAVAILABLE","message":"restarting"}})"));
  answer_progress(3);
  answer_progress(5, true);
  EXPECT_EQ(run_volumes_put(transport, console,
                            {.volume = "w", .local = write("a", "hello"), .path = ""}),
            0)
      << err.str();
  EXPECT_EQ(transport.requests.back().body, "lo");
}

TEST_F(Volumes, WhatTheWorkerRefusesIsNotTriedAgain) {
  answer_progress(0);
  transport.answer(
      response(429, R"({"error":{"code":"RESOURCE_EXHAUSTED","message":"quota of disk"}})"));
  EXPECT_EQ(run_volumes_put(transport, console,
                            {.volume = "w", .local = write("a", "hello"), .path = ""}),
            exit_code_of(ErrorCode::kResourceExhausted));
  EXPECT_THAT(err.str(), HasSubstr("quota of disk"));
  EXPECT_EQ(transport.requests.size(), 2u);
}

TEST_F(Volumes, AFolderIsItsRegularFilesInOrder) {
  write("top/b", "1");
  write("top/a/x", "1");
  EXPECT_EQ(paths("top"), (std::vector<std::string>{"a/x", "b"}));
  EXPECT_EQ(paths("top", "v1"), (std::vector<std::string>{"v1/a/x", "v1/b"}));
  EXPECT_EQ(paths("top/b"), (std::vector<std::string>{"b"}));
  EXPECT_THAT(paths("nothing").at(0), HasSubstr("No such file"));
}

TEST_F(Volumes, LinksAreFollowedInsideTheFolderOnly) {
  write("secret", "treasure");
  write("top/blobs/1", "weights");
  fs::create_symlink("blobs/1", folder_ + "/top/model");
  EXPECT_EQ(paths("top"), (std::vector<std::string>{"blobs/1", "model"}));
  fs::create_symlink("../secret", folder_ + "/top/note");
  EXPECT_THAT(paths("top").at(0), HasSubstr("outside of the folder"));
  EXPECT_EQ(paths("top", "", true), (std::vector<std::string>{"blobs/1", "model", "note"}));
}

TEST_F(Volumes, AFileIsGotInPiecesAndChecked) {
  answer_files({{"models/a", "hello"}});
  transport.answer(response(206, "hello"));
  EXPECT_EQ(run_volumes_get(transport, console,
                            {.volume = "w", .path = "models/a", .local = folder_ + "/got"}),
            0)
      << err.str();
  EXPECT_EQ(read("got"), "hello");
  EXPECT_EQ(read("got.part"), "(none)");
  EXPECT_EQ(transport.requests[1].headers.get("Range"), "bytes=0-4");
}

TEST_F(Volumes, AGetGoesOnWhereItWas) {
  write("got.part", "hel");
  answer_files({{"a", "hello"}});
  transport.answer(response(206, "lo"));
  EXPECT_EQ(
      run_volumes_get(transport, console, {.volume = "w", .path = "a", .local = folder_ + "/got"}),
      0)
      << err.str();
  EXPECT_EQ(transport.requests[1].headers.get("Range"), "bytes=3-4");
  EXPECT_EQ(read("got"), "hello");
}

TEST_F(Volumes, WhatComesWithAnotherDigestIsNotKept) {
  answer_files({{"a", "hello"}});
  transport.answer(response(206, "hellO"));
  EXPECT_EQ(
      run_volumes_get(transport, console, {.volume = "w", .path = "a", .local = folder_ + "/got"}),
      exit_code_of(ErrorCode::kDataLoss));
  EXPECT_EQ(read("got"), "(none)");
  EXPECT_EQ(read("got.part"), "(none)");
}

TEST_F(Volumes, AnAnswerThatIsAnErrorIsNoContent) {
  answer_files({{"a", "hello"}});
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"it went"}})"));
  EXPECT_EQ(
      run_volumes_get(transport, console, {.volume = "w", .path = "a", .local = folder_ + "/got"}),
      exit_code_of(ErrorCode::kNotFound));
  EXPECT_EQ(read("got.part"), "") << "nothing of it was taken for the file";
}

TEST_F(Volumes, AFolderIsGotWithWhatIsBelowIt) {
  answer_files({{"v1-old/a", "no"}, {"v1/a", "A"}, {"v1/b/c", "C"}});
  transport.answer(response(206, "A"));
  transport.answer(response(206, "C"));
  EXPECT_EQ(
      run_volumes_get(transport, console, {.volume = "w", .path = "v1", .local = folder_ + "/x"}),
      0)
      << err.str();
  EXPECT_EQ(read("x/a"), "A");
  EXPECT_EQ(read("x/b/c"), "C");
  EXPECT_EQ(transport.requests.size(), 3u);
}

TEST_F(Volumes, PathsOfTheWorkerThatLeadElsewhereAreRefused) {
  transport.answer(response(
      200,
      json{{"files", {{{"path", "../../etc/x"}, {"size_bytes", 1}, {"sha256", "x"}}}}}.dump()));
  EXPECT_EQ(
      run_volumes_get(transport, console, {.volume = "w", .path = ".", .local = folder_ + "/x"}),
      exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_FALSE(fs::exists(folder_ + "/x"));
}

TEST_F(Volumes, AVolumeAndAFileInItAreRemovedByTheirNames) {
  transport.answer(response(200, "{}"));
  transport.answer(response(200, R"({"files":2})"));
  EXPECT_EQ(run_volumes_rm(transport, console, "w", ""), 0);
  EXPECT_EQ(run_volumes_rm(transport, console, "w", "a/b c"), 0);
  EXPECT_EQ(transport.requests[0].method + " " + transport.requests[0].target,
            "DELETE /v1/volumes/w");
  EXPECT_EQ(transport.requests[1].target, "/v1/volumes/w/files/a/b%20c");
}

}  // namespace
}  // namespace lambent::cli
