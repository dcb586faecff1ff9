#include "edge/cli/model_fetch.h"

#include <algorithm>
#include <set>

#include "core/base/fd.h"
#include "core/base/units.h"
#include "core/domain/volume.h"
#include "core/http/message.h"
#include "edge/cli/fetch_cache.h"
#include "edge/cli/file_fetch.h"
#include "edge/cli/volume_upload.h"
#include "edge/model_files/onnx_files.h"

namespace lambent::cli {
namespace {

// What protobuf reads, and so what ONNX can be.
// The digest of no bytes: the body of a GET.
constexpr const char* kNoBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string without_query(const std::string& url) { return url.substr(0, url.find_first_of("?#")); }

// The same with another last part. What follows a '?' belongs to the first file.
std::string beside(const std::string& url, const std::string& place) {
  const std::string plain = url.starts_with(kS3) ? url : without_query(url);
  const std::string folder = plain.substr(0, plain.rfind('/') + 1);
  return folder + (url.starts_with(kS3) ? place : escaped_path(place));
}

}  // namespace

S3Place place_in_s3(const std::string& url) {
  const std::string place = url.substr(std::min(kS3.size(), url.size()));
  const size_t slash = std::min(place.find('/'), place.size());
  return {place.substr(0, slash), place.substr(std::min(slash + 1, place.size()))};
}

void prepare(CurlRequest& request, const FetchOptions& options) {
  request.stall = options.stall;
  request.allows_private = options.allows_private;
  request.proxies = options.proxies;
}

std::string shown_url(const std::string& url) {
  std::string text = url.starts_with(kS3) ? url : without_query(url);
  const size_t scheme = text.find("://");
  const size_t slash = text.find('/', scheme + 3);
  const size_t at = text.substr(0, slash).rfind('@');
  if (at != std::string::npos) text.erase(scheme + 3, at + 1 - (scheme + 3));
  return text;
}

namespace {

// Of a bucket, to which a key or a query is added.
Result<CurlRequest> bucket_request(const std::string& bucket, const S3Access& s3) {
  CurlRequest request;
  if (!s3.endpoint.empty()) {
    if (!s3.endpoint.starts_with("http://") && !s3.endpoint.starts_with("https://")) {
      return bad_url("the S3 endpoint '" + s3.endpoint +
                     "' begins with neither http:// nor https://");
    }
    std::string endpoint = s3.endpoint;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    request.url = endpoint + "/" + http::percent_encode(bucket);
  } else {
    // A certificate of *.s3.amazonaws.com is not one of names with more dots.
    const std::string host = "s3." + s3.region + ".amazonaws.com";
    request.url = bucket.find('.') == std::string::npos
                      ? "https://" + http::percent_encode(bucket) + "." + host
                      : "https://" + host + "/" + http::percent_encode(bucket);
  }
  // A signature is for one host.
  request.redirects = 0;
  if (s3.key_id.empty()) return request;
  request.user = s3.key_id + ":" + s3.secret;
  request.signature = "aws:amz:" + s3.region + ":s3";
  request.headers.push_back(std::string("x-amz-content-sha256: ") + kNoBody);
  if (!s3.session_token.empty()) {
    request.headers.push_back("x-amz-security-token: " + s3.session_token);
  }
  return request;
}

Result<CurlRequest> s3_request(const std::string& url, const S3Access& s3) {
  const S3Place place = place_in_s3(url);
  if (place.bucket.empty() || place.key.empty()) {
    return bad_url("'" + url + "' is no s3://BUCKET/KEY");
  }
  ASSIGN_OR_RETURN(CurlRequest request, bucket_request(place.bucket, s3));
  request.url += "/" + escaped_path(place.key);
  request.headers.push_back("x-amz-checksum-mode: ENABLED");
  return request;
}

class ModelFetch {
 public:
  ModelFetch(Console& console, const ModelSource& source, const FetchOptions& options,
             std::shared_ptr<const CacheEntry> entry)
      : console_(console), source_(source), options_(options), entry_(std::move(entry)) {}

  Result<FetchedModel> run() {
    ASSIGN_OR_RETURN(const std::string file, file_of_url(source_.url));
    RETURN_IF_ERROR(fetch(source_.url, file, source_.sha256));
    const std::string local = entry_->files() + "/" + file;
    auto others = files_in(local);
    if (!others.ok()) {
      entry_->drop();
      return others.error().with_context(shown_url(source_.url));
    }
    for (const std::string& other : *others) {
      if (other == file) return bad_url(shown_url(source_.url) + ": it names itself as its data");
      RETURN_IF_ERROR(fetch(beside(source_.url, other), other, ""));
    }
    return FetchedModel{entry_->files(), file, entry_};
  }

 private:
  static Result<std::set<std::string>> files_in(const std::string& local) {
    ASSIGN_OR_RETURN(const Bytes size, size_of_file(local));
    if (size.count > model_files::kMostModel)
      return bad_url("it is no ONNX model: it has " + to_string(size));
    ASSIGN_OR_RETURN(const std::string model, read_file(local, model_files::kMostModel));
    return model_files::external_files(model);
  }

  Result<void> fetch(const std::string& url, const std::string& place, const std::string& sha256) {
    ASSIGN_OR_RETURN(CurlRequest request, request_for(url, options_.s3));
    prepare(request, options_);
    const std::string local = entry_->files() + "/" + place;
    ASSIGN_OR_RETURN(const Bytes room, room_in(entry_->path()));
    const Bytes left = options_.most > fetched_ ? options_.most - fetched_ : Bytes();
    FileFetch file(console_, std::move(request), local, entry_->work() + "/" + place,
                   std::min(left, room));
    const auto got = file.run(sha256);
    if (!got.ok()) return got.error().with_context(shown_url(url));
    ASSIGN_OR_RETURN(const Bytes size, size_of_file(local));
    fetched_ += size;
    console_.err << shown_url(url) << "  " << to_string(size) << "  fetched\n" << std::flush;
    return {};
  }

  Console& console_;
  const ModelSource& source_;
  const FetchOptions& options_;
  const std::shared_ptr<const CacheEntry> entry_;  // what is fetched keeps it
  Bytes fetched_;
};

}  // namespace

bool is_model_url(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://") || text.starts_with(kS3);
}

Result<std::string> file_of_url(const std::string& url) {
  const bool is_s3 = url.starts_with(kS3);
  const std::string plain = is_s3 ? url : without_query(url);
  const size_t host = plain.find("://") + 3;
  const size_t slash = plain.rfind('/');
  std::string name;
  const bool is_read = slash != std::string::npos && slash >= host &&
                       (is_s3 ? (name = plain.substr(slash + 1), true)
                              : http::percent_decode(plain.substr(slash + 1), name));
  // As the name of a file it is also one of a volume, and a word of a command.
  if (is_read && name.find('/') == std::string::npos && validate_volume_path(name).ok()) {
    return name;
  }
  return bad_url("'" + shown_url(url) + "' names no file");
}

Result<CurlRequest> request_for(const std::string& url, const S3Access& s3) {
  if (std::ranges::any_of(url, [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
    return bad_url("the URL has control characters");
  }
  if (url.starts_with(kS3)) return s3_request(url, s3);
  return CurlRequest{.url = url};
}

Result<CurlRequest> listing_request(const std::string& url, const std::string& token,
                                    const S3Access& s3) {
  const S3Place place = place_in_s3(url);
  if (place.bucket.empty()) return bad_url("'" + url + "' is no s3://BUCKET/FOLDER");
  ASSIGN_OR_RETURN(CurlRequest request, bucket_request(place.bucket, s3));
  // In the order that signatures have them.
  request.url += "/?";
  if (!token.empty()) request.url += "continuation-token=" + http::percent_encode(token) + "&";
  request.url +=
      "encoding-type=url&list-type=2&max-keys=1000&prefix=" + http::percent_encode(place.key);
  return request;
}

Result<FetchedModel> fetch_model(Console& console, const ModelSource& source,
                                 const FetchOptions& options) {
  if (!source.sha256.empty()) RETURN_IF_ERROR(validate_sha256(source.sha256));
  RETURN_IF_ERROR(file_of_url(source.url));
  const auto entry = options.cache.open(source.url);
  if (!entry.ok()) return entry.error().with_context(shown_url(source.url));
  auto fetched = ModelFetch(console, source, options, *entry).run();
  if (!fetched.ok() && (*entry)->is_empty()) (*entry)->drop();
  return fetched;
}

}  // namespace lambent::cli
