// Functions of container images: which image, and what they have in place of its entry point,
// command and working directory. Values and pure functions; any thread.
//
// A FunctionSpec has all of it in two fields. `runtime_name` is kImageRuntime, and `handler` is the
// line that `docker run` would have: options, the image, the words of the command.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/function.h"

namespace lambent {

constexpr std::string_view kImageRuntime = "image";
constexpr size_t kImageReferenceLength = 1024;

inline bool runs_image(const FunctionSpec& spec) { return spec.runtime_name == kImageRuntime; }

enum class ImageTransport { kRegistry, kOciLayout, kOciArchive, kDockerArchive };

// Where an image is, as skopeo takes it: "ghcr.io/x/y:1", "oci:/path:tag", "docker-archive:/path".
struct ImageReference {
  ImageTransport transport = ImageTransport::kRegistry;
  std::string name;    // of the repository, with its registry; or an absolute path
  std::string tag;     // empty: none is named
  std::string digest;  // "sha256:..." of its manifest; empty: whatever the tag names now

  bool operator==(const ImageReference&) const = default;

  bool is_local() const { return transport != ImageTransport::kRegistry; }
  // "ghcr.io", "localhost:5000", "docker.io"; of a registry only.
  std::string registry() const;
};

// "docker://" may stand before the name of a repository. A path need not be absolute here.
// INVALID_ARGUMENT.
Result<ImageReference> parse_image_reference(std::string_view text);
std::string text_of(const ImageReference& reference);

// Whether it is "sha256:" and 64 lower-case hexadecimal digits.
bool is_image_digest(std::string_view text);

// What starts in a sandbox of an image. What is not given is as the image's configuration says; the
// image's command goes with its entry point, so one that is given takes both away.
struct ImageCommand {
  ImageReference image;
  std::optional<std::vector<std::string>> entry_point;
  std::optional<std::vector<std::string>> command;
  std::string working_directory;  // empty: the image's

  bool operator==(const ImageCommand&) const = default;
};

// The line and back. INVALID_ARGUMENT.
Result<ImageCommand> parse_image_command(std::string_view line);
std::string text_of(const ImageCommand& command);

}  // namespace lambent
