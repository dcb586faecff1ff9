#include "edge/frontend/volume_frontend.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/domain/limits.h"
#include "core/domain/tenant.h"
#include "core/http/streamed_exchange.h"
#include "edge/frontend/testing/fake_volumes.h"
#include "edge/frontend/testing/testing.h"
#include "edge/frontend/volume_transfer.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

class VolumeFrontendTest : public testing::Test {
 protected:
  http::Response call(const std::string& method, const std::string& target,
                      const std::string& body = "",
                      const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle({.tenant = kDefaultTenant}, request_of(method, target, body, headers),
                     responder_to(seen));
    return seen->response.value_or(http::Response{.status = 0});
  }

  FakeVolumes volumes_;
  VolumeFrontend frontend_{volumes_};
};

TEST_F(VolumeFrontendTest, AVolumeIsMadeListedAndRemoved) {
  EXPECT_EQ(call("PUT", "/v1/volumes/weights").status, 200);
  EXPECT_EQ(call("PUT", "/v1/volumes/weights").status, 409);
  EXPECT_EQ(json::parse(call("GET", "/v1/volumes").body)["volumes"][0]["name"], "weights");
  EXPECT_EQ(call("DELETE", "/v1/volumes/weights").status, 200);
  EXPECT_EQ(call("DELETE", "/v1/volumes/weights").status, 404);
  EXPECT_EQ(call("POST", "/v1/volumes").status, 405);
  EXPECT_EQ(call("GET", "/v1/volumes/weights/nothing").status, 404);
}

TEST_F(VolumeFrontendTest, AFileGoesInAndComesOutUnderItsPath) {
  call("PUT", "/v1/volumes/weights");
  const http::Response put = call("PUT", "/v1/volumes/weights/files/models/a%20b.bin", "hello");
  EXPECT_EQ(put.status, 200);
  EXPECT_EQ(json::parse(put.body)["file"]["path"], "models/a b.bin");
  const http::Response got = call("GET", "/v1/volumes/weights/files/models/a%20b.bin");
  EXPECT_EQ(got.body, "hello");
  EXPECT_EQ(got.headers.get("ETag"), "\"digest of hello\"");
  EXPECT_EQ(call("DELETE", "/v1/volumes/weights/files/models/a%20b.bin").status, 200);
  EXPECT_EQ(call("GET", "/v1/volumes/weights/files/models/a%20b.bin").status, 404);
}

TEST_F(VolumeFrontendTest, AnUploadSaysWhichItIsAndWhereItGoesOn) {
  call("PUT", "/v1/volumes/weights");
  call("PUT", "/v1/volumes/weights/files/a?size=5&sha256=abc&offset=3", "lo");
  EXPECT_EQ(volumes_.last_key.size, Bytes(5));
  EXPECT_EQ(volumes_.last_key.sha256, "abc");
  EXPECT_EQ(volumes_.last_offset, Bytes(3));
  const auto status =
      json::parse(call("GET", "/v1/volumes/weights/uploads/a/b?size=5&sha256=x").body);
  EXPECT_EQ(volumes_.last_key.path, "a/b");
  EXPECT_EQ(status["offset"], 3);
  EXPECT_EQ(status["complete"], false);
  for (const char* bad : {"offset=-1", "offset=x", "size=1e3", "size=99999999999999999999"}) {
    EXPECT_EQ(call("PUT", std::string("/v1/volumes/weights/files/a?") + bad, "x").status, 400)
        << bad;
  }
}

TEST_F(VolumeFrontendTest, AnUploadThatFailsIsAnsweredWithItsError) {
  call("PUT", "/v1/volumes/weights");
  volumes_.write_failure = Error{ErrorCode::kStorageFull, "no space"};
  EXPECT_EQ(call("PUT", "/v1/volumes/weights/files/a", "hello").status, 507);
}

TEST_F(VolumeFrontendTest, FilesAreListedInPages) {
  call("PUT", "/v1/volumes/weights");
  for (const char* path : {"a", "b", "c"}) {
    call("PUT", std::string("/v1/volumes/weights/files/") + path, "x");
  }
  const auto first = json::parse(call("GET", "/v1/volumes/weights/files?limit=2").body);
  EXPECT_EQ(first["files"].size(), 2u);
  EXPECT_EQ(first["next"], "b");
  const auto second = json::parse(call("GET", "/v1/volumes/weights/files?limit=2&after=b").body);
  EXPECT_EQ(second["files"].size(), 1u);
  EXPECT_FALSE(second.contains("next"));
  EXPECT_EQ(call("GET", "/v1/volumes/weights/files?limit=0").status, 400);
}

TEST_F(VolumeFrontendTest, PartsOfAFileAreAskedForByRange) {
  call("PUT", "/v1/volumes/weights");
  call("PUT", "/v1/volumes/weights/files/a", "hello");
  const http::Response part =
      call("GET", "/v1/volumes/weights/files/a", "", {{"Range", "bytes=1-3"}});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "ell");
  EXPECT_EQ(part.headers.get("Content-Range"), "bytes 1-3/5");
  EXPECT_EQ(call("GET", "/v1/volumes/weights/files/a", "", {{"Range", "bytes=5-"}}).status, 416);
  EXPECT_EQ(call("GET", "/v1/volumes/weights/files/a?sha256=other").status, 409)
      << "a part of another content is no part of the one that was begun";
}

TEST_F(VolumeFrontendTest, AClientThatGoesWhileItsFileIsOpenedHoldsNothing) {
  call("PUT", "/v1/volumes/weights");
  call("PUT", "/v1/volumes/weights/files/a", "hello");
  volumes_.holds_transfers = true;
  for (const char* method : {"PUT", "GET"}) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle({.tenant = kDefaultTenant},
                     request_of(method, "/v1/volumes/weights/files/a", "x"), responder_to(seen));
    seen->disconnect();
    volumes_.go_on();
    EXPECT_FALSE(seen->response) << method;
    EXPECT_TRUE(seen->abandoned) << method;
    EXPECT_EQ(volumes_.live_transfers, 0) << method;
  }
}

TEST(RequestedRange, IsWithinTheFile) {
  const auto range = [](const char* text) { return requested_range(text, 10); };
  EXPECT_EQ(range(""), (DownloadRange{0, 10, false}));
  EXPECT_EQ(range("bytes=0-"), (DownloadRange{0, 10, true}));
  EXPECT_EQ(range("bytes=3-5"), (DownloadRange{3, 6, true}));
  EXPECT_EQ(range("bytes=3-500"), (DownloadRange{3, 10, true}));
  EXPECT_EQ(range("bytes=-4"), (DownloadRange{6, 10, true}));
  EXPECT_EQ(range("bytes=-40"), (DownloadRange{0, 10, true}));
  EXPECT_EQ(range("bytes=10-"), std::nullopt);
  EXPECT_EQ(range("bytes=-0"), std::nullopt);
  for (const char* other : {"lines=1-2", "bytes=5-3", "bytes=1-2,4-5", "bytes=a-", "bytes=1"}) {
    EXPECT_EQ(range(other), (DownloadRange{0, 10, false})) << other;
  }
}

// A client at the other end of a stream, which a test moves by hand.
class FakeStream final : public http::StreamedExchange {
 public:
  void receive(Sink sink) override { sink_ = std::move(sink); }
  void hold(bool held) override { held_ = held; }
  void expect_whole(bool) override {}
  void start(http::Response, std::optional<uint64_t> size) override { size_ = size; }
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override {
    sent_ += bytes;
    return takes_more_;
  }
  void on_room(std::function<void()> callback) override { room_ = std::move(callback); }
  void finish() override { finished_ = true; }

  Sink sink_;
  bool held_ = false;
  std::optional<uint64_t> size_;
  std::string sent_;
  bool takes_more_ = true;
  std::function<void()> room_;
  bool finished_ = false;
};

class StreamedResponder final : public http::Responder::Exchange {
 public:
  StreamedResponder(std::shared_ptr<Exchanged> seen, FakeStream& stream)
      : seen_(std::move(seen)), stream_(stream) {}
  void send(http::Response response) override { seen_->response = std::move(response); }
  void start_chunked(http::Response) override {}
  bool send_chunk(std::string_view) override { return false; }
  void finish_chunked() override {}
  void on_disconnect(std::function<void()> callback) override {
    seen_->disconnect = std::move(callback);
  }
  http::StreamedExchange* stream() override { return &stream_; }
  void abandon() override { seen_->abandoned = true; }

 private:
  // Shared with the test, which looks on.
  std::shared_ptr<Exchanged> seen_;
  FakeStream& stream_;
};

// An upload that is behind until the test says otherwise.
class SlowUpload final : public VolumeUpload {
 public:
  explicit SlowUpload(bool& gone) : gone_(gone) {}
  ~SlowUpload() override { gone_ = true; }
  bool write(std::string_view bytes) override {
    content_ += bytes;
    return false;
  }
  void on_room(std::function<void()> callback) override { room_ = std::move(callback); }
  const std::optional<Error>& failure() const override { return failure_; }
  void finish(std::function<void(Result<UploadStatus>)> done) override { done_ = std::move(done); }

  bool& gone_;
  std::string content_;
  std::function<void()> room_;
  std::optional<Error> failure_;
  std::function<void(Result<UploadStatus>)> done_;
};

class VolumeTransferTest : public testing::Test {
 protected:
  http::Responder responder() {
    return http::Responder(std::make_shared<StreamedResponder>(seen_, stream_));
  }
  std::shared_ptr<SlowUpload> receive(const std::string& length = "5") {
    auto upload = std::make_shared<SlowUpload>(upload_gone_);
    http::Request request;
    request.headers.add("Content-Length", length);
    receive_upload(request, responder(), upload,
                   [](const UploadStatus&) { return http::Response{.status = 201}; });
    return upload;
  }

  std::shared_ptr<Exchanged> seen_ = std::make_shared<Exchanged>();
  FakeStream stream_;
  bool upload_gone_ = false;
};

TEST_F(VolumeTransferTest, AClientIsHeldWhileTheDiskIsBehind) {
  auto upload = receive();
  stream_.sink_.on_bytes("hel");
  EXPECT_TRUE(stream_.held_);
  upload->room_();
  EXPECT_FALSE(stream_.held_);
  stream_.sink_.on_bytes("lo");
  stream_.sink_.on_end();
  EXPECT_FALSE(seen_->response);
  EXPECT_EQ(upload->content_, "hello");
  upload->done_(UploadStatus{});
  EXPECT_EQ(seen_->response->status, 201);
}

TEST_F(VolumeTransferTest, ABodyThatIsEmptyIsWholeAtOnce) {
  auto upload = receive("0");
  ASSERT_TRUE(upload->done_) << "a stream would not tell of its end";
  upload->done_(UploadStatus{});
  EXPECT_EQ(seen_->response->status, 201);
}

TEST_F(VolumeTransferTest, AnUploadIsLetGoWhenItsClientIs) {
  receive();
  stream_.sink_.on_bytes("hel");
  EXPECT_FALSE(upload_gone_);
  seen_->disconnect();
  EXPECT_TRUE(upload_gone_);
  stream_.sink_.on_bytes("late");
}

TEST_F(VolumeTransferTest, AFailureOfTheDiskIsAnsweredAtOnce) {
  auto upload = receive();
  stream_.sink_.on_bytes("hel");
  upload->failure_ = Error{ErrorCode::kStorageFull, "no space"};
  upload->room_();
  ASSERT_TRUE(seen_->response);
  EXPECT_EQ(seen_->response->status, 507);
}

TEST_F(VolumeTransferTest, ADownloadWaitsForItsClient) {
  FakeVolumes volumes;
  const std::string content(static_cast<size_t>((limits::kVolumePiece * 2).count), 'x');
  volumes.volumes[{kDefaultTenant, "w"}]["a"] = content;
  stream_.takes_more_ = false;
  volumes.open_file(kDefaultTenant, "w", "a", [&](auto download) {
    send_download(*download, {.begin = 0, .end = content.size()}, {}, responder());
  });
  EXPECT_EQ(stream_.size_, content.size());
  EXPECT_EQ(stream_.sent_.size(), content.size() / 2);
  EXPECT_FALSE(stream_.finished_);
  stream_.room_();
  EXPECT_EQ(stream_.sent_, content);
  EXPECT_TRUE(stream_.finished_);
}

}  // namespace
}  // namespace lambent::frontend
