// PullOrder and PulledImage: what lambent-environment is told to pull, and its answer.
// Values; written and read by the worker and that program, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "node/images/image_config.h"

namespace lambent::images {

struct PullOrder {
  std::string folder;  // of all images: ready/, work/
  std::string work;    // names the folder of this pull in work/
  std::string skopeo;  // the programs
  std::string umoci;
  std::string auth_file;      // of registries, in the form of containers-auth.json(5); empty: none
  std::string auth;           // instead of it: what such a file has, of a tenant
  bool proves = false;        // whether they may have it is asked, also of an image that is here
  std::string reference;      // as text_of(ImageReference) writes it
  std::string local_path;     // of the host, without links; empty: it is a registry's
  bool is_copy = false;       // local_path has the layout that another node kept of it
  bool keeps_layout = false;  // for other nodes
  bool plain_http = false;
  std::vector<std::string> variables;  // "NAME=VALUE": the node's proxies
  Bytes most;
  Duration timeout{};

  bool operator==(const PullOrder&) const = default;
};

// The C library that an image's programs use.
struct CLibrary {
  std::string name;     // "glibc", "musl", or empty: none was found
  std::string version;  // "2.36"; of glibc only

  bool operator==(const CLibrary&) const = default;
};

struct PulledImage {
  std::string digest;  // "sha256:..." that names it where it came from
  Bytes size;          // on the disk: of its root file system, and of its blobs where they are kept
  ImageConfig config;
  ImageUser user;
  CLibrary c_library;
  std::string registry;  // that gave it to this machine; empty: it came otherwise
  std::string base;      // key_of() of an image with which it shares files on the disk; empty: none
  Bytes shared;          // of `size`: what both have

  bool operator==(const PulledImage&) const = default;
};

std::string to_json(const PullOrder& order);
Result<PullOrder> parse_pull_order(std::string_view json);
std::string to_json(const PulledImage& image);
Result<PulledImage> parse_pulled_image(std::string_view json);

// The digest as a FunctionSpec has that of its code, and the name of its folder among all images.
std::string code_sha256_of(std::string_view digest);
std::string key_of(std::string_view digest);

}  // namespace lambent::images
