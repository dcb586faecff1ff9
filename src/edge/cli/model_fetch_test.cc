// What is asked of servers for models, and what their answers mean.
#include "edge/cli/model_fetch.h"

#include <gmock/gmock.h>

#include "edge/cli/file_fetch.h"

namespace lambent::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ModelUrl, NamesAFile) {
  EXPECT_EQ(file_of_url("https://example.com/a/b/resnet%2050.onnx?token=1").value(),
            "resnet 50.onnx");
  EXPECT_EQ(file_of_url("s3://bucket/a/what?.onnx").value(), "what?.onnx");
  for (const char* url : {"https://example.com", "https://example.com/", "https://example.com/a/..",
                          "https://example.com/a%2fb", "https://example.com/%00", "s3://bucket/"}) {
    EXPECT_FALSE(file_of_url(url).ok()) << url;
  }
}

TEST(ModelUrl, OfAStoreIsOneOfItsEndpoint) {
  S3Access s3{.endpoint = "http://127.0.0.1:9000/", .region = "eu-west-1"};
  const CurlRequest plain = request_for("s3://models/a b/c+d.onnx", s3).value();
  EXPECT_EQ(plain.url, "http://127.0.0.1:9000/models/a%20b/c%2Bd.onnx");
  EXPECT_EQ(plain.user, "");
  EXPECT_EQ(plain.redirects, 0u);
  s3 = {.endpoint = "",
        .region = "eu-west-1",
        .key_id = "id",
        .secret = "secret",
        .session_token = "session"};
  const CurlRequest signed_one = request_for("s3://models/m.onnx", s3).value();
  EXPECT_EQ(signed_one.url, "https://models.s3.eu-west-1.amazonaws.com/m.onnx");
  EXPECT_EQ(signed_one.user, "id:secret");
  EXPECT_EQ(signed_one.signature, "aws:amz:eu-west-1:s3");
  EXPECT_THAT(signed_one.headers, Contains("x-amz-security-token: session"));
  EXPECT_EQ(request_for("s3://my.models/m.onnx", s3)->url,
            "https://s3.eu-west-1.amazonaws.com/my.models/m.onnx");
  EXPECT_FALSE(request_for("s3://models", s3).ok());
  EXPECT_FALSE(request_for("s3:///key", s3).ok());
  EXPECT_FALSE(request_for("https://example.com/a\nurl = file:///etc/passwd", {}).ok());
  s3.endpoint = "ftp://example.com";
  EXPECT_FALSE(request_for("s3://models/m.onnx", s3).ok());
}

TEST(CurlHeads, TheLastOneCounts) {
  const CurlHead head = last_head(
      "HTTP/1.1 302 Found\r\nLocation: /b\r\nETag: \"old\"\r\n\r\n"
      "HTTP/2 206 \r\ncontent-range: bytes 5-9/10\r\netag: \"new\"\r\n\r\n");
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.headers.get("ETag"), "\"new\"");
  EXPECT_FALSE(head.headers.contains("Location"));
  EXPECT_EQ(first_byte(head), Bytes(5));
  EXPECT_EQ(served_file(head), (ServedFile{"\"new\"", Bytes(10)}));
  EXPECT_EQ(last_head("").status, 0);
  EXPECT_EQ(last_head("HTTP/1.1\r\nno colon\r\n").status, 0);
}

TEST(CurlHeads, AFileIsKnownByAStrongTagOrADate) {
  const auto served = [](const std::string& fields) {
    return served_file(last_head("HTTP/1.1 200 OK\r\n" + fields + "\r\n"));
  };
  EXPECT_EQ(served("ETag: W/\"weak\"\r\n").tag, "");
  EXPECT_EQ(served("ETag: W/\"weak\"\r\nLast-Modified: Mon, 1 Jan\r\n").tag, "Mon, 1 Jan");
  EXPECT_EQ(served("Content-Length: 12\r\n").size, Bytes(12));
  EXPECT_EQ(served("Content-Length: -1\r\n").size, std::nullopt);
  EXPECT_EQ(first_byte(last_head("HTTP/1.1 206 OK\r\nContent-Range: items 1-2/3\r\n")),
            std::nullopt);
}

TEST(CurlHeads, ADigestOfAWholeObjectCounts) {
  const auto told = [](const std::string& fields) {
    return told_sha256(last_head("HTTP/1.1 200 OK\r\n" + fields + "\r\n"));
  };
  const std::string digest =
      "x-amz-checksum-sha256: YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\r\n";
  std::string hex;
  for (int i = 0; i < 32; ++i) hex += "61";
  EXPECT_EQ(told(digest), hex);
  EXPECT_EQ(told(digest + "x-amz-checksum-type: FULL_OBJECT\r\n"), hex);
  EXPECT_EQ(told(digest + "x-amz-checksum-type: COMPOSITE\r\n"), "");
  EXPECT_EQ(told("x-amz-checksum-sha256: YWFh\r\n"), "");
  EXPECT_EQ(told("x-amz-checksum-sha256: YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=-3\r\n"), "");
  EXPECT_EQ(told("ETag: \"x\"\r\n"), "");
}

TEST(ModelUrl, OfAFolderIsListedInTheOrderOfSignatures) {
  const S3Access s3{.endpoint = "http://127.0.0.1:9000", .region = "eu-west-1"};
  EXPECT_EQ(listing_request("s3://models/a b/", "", s3)->url,
            "http://127.0.0.1:9000/models/?encoding-type=url&list-type=2&max-keys=1000"
            "&prefix=a%20b%2F");
  EXPECT_EQ(listing_request("s3://models", "x/=", {})->url,
            "https://models.s3.us-east-1.amazonaws.com/?continuation-token=x%2F%3D&"
            "encoding-type=url&list-type=2&max-keys=1000&prefix=");
  EXPECT_FALSE(listing_request("s3:///a/", "", s3).ok());
}

TEST(CurlHeads, AStatusSaysWhatToDoNext) {
  EXPECT_EQ(error_of_status(404, "").code, ErrorCode::kNotFound);
  EXPECT_EQ(error_of_status(403, "").code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(error_of_status(503, "").code, ErrorCode::kUnavailable);
  EXPECT_EQ(error_of_status(501, "").code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(error_of_status(404, "no such file\nat all").message,
            "the server answers 404: no such file");
  EXPECT_EQ(error_of_status(403, "<?xml?><Error><Message>Not for you</Message></Error>").message,
            "the server answers 403: Not for you");
  EXPECT_EQ(error_of_status(404, "<html><body>\x1b[31m").message, "the server answers 404");
}

}  // namespace
}  // namespace lambent::cli
