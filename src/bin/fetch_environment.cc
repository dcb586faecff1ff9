#include "bin/fetch_environment.h"

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>

#include "core/base/fd.h"
#include "edge/cli/aws_credentials.h"

namespace lambent::bin {
namespace {

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

constexpr size_t kMostAwsFile = 1 << 20;

// Of ~/.aws/credentials and ~/.aws/config; a section of the latter is called after its profile but
// for the default one.
std::map<std::string, std::string> profile_of_aws(const std::string& profile) {
  const std::string folder = value_of("HOME") + "/.aws/";
  const auto path = [&](const char* variable, const char* name) {
    const std::string own = value_of(variable);
    return own.empty() ? folder + name : own;
  };
  std::map<std::string, std::string> settings;
  const auto add = [&](const std::string& file, const std::string& section) {
    const auto text = read_file(file, kMostAwsFile);
    if (text.ok()) settings.merge(cli::aws_section(*text, section));
  };
  add(path("AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile);
  add(path("AWS_CONFIG_FILE", "config"), profile == "default" ? profile : "profile " + profile);
  return settings;
}

}  // namespace

Result<cli::S3Access> default_s3_access() {
  cli::S3Access s3;
  s3.endpoint = value_of("AWS_ENDPOINT_URL_S3");
  if (s3.endpoint.empty()) s3.endpoint = value_of("AWS_ENDPOINT_URL");
  s3.key_id = value_of("AWS_ACCESS_KEY_ID");
  s3.secret = value_of("AWS_SECRET_ACCESS_KEY");
  s3.session_token = value_of("AWS_SESSION_TOKEN");
  const std::string named = value_of("AWS_PROFILE");
  auto profile = profile_of_aws(named.empty() ? "default" : named);
  if (!named.empty() && profile.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "AWS_PROFILE: there is no profile '" + named + "' in ~/.aws"};
  }
  if (s3.key_id.empty()) {
    s3.key_id = profile["aws_access_key_id"];
    s3.secret = profile["aws_secret_access_key"];
    s3.session_token = profile["aws_session_token"];
  }
  if (const std::string& region = profile["region"]; !region.empty()) s3.region = region;
  for (const char* name : {"AWS_DEFAULT_REGION", "AWS_REGION"}) {
    if (const std::string region = value_of(name); !region.empty()) s3.region = region;
  }
  return s3;
}

cli::ProxySettings default_proxies() {
  const auto first_of = [](std::initializer_list<const char*> names) {
    std::string value;
    for (const char* name : names) {
      if (value.empty()) value = value_of(name);
    }
    return value;
  };
  // HTTP_PROXY in capitals is not read: a server's CGI sets it from a client's header.
  return {.http = first_of({"http_proxy", "all_proxy", "ALL_PROXY"}),
          .https = first_of({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}),
          .except = first_of({"no_proxy", "NO_PROXY"})};
}

}  // namespace lambent::bin
