#include "emulator/emulated_cuda/textures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace lambent::emulated_cuda {

namespace {

// What a filter mixes: floats, or integers that are passed on as they are.
struct Texel {
  uint32_t words[4] = {};
};

float float_of_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31, fraction = half & 0x3FF;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

float linear_of_srgb(float value) {
  return value <= 0.04045f ? value / 12.92f : std::pow((value + 0.055f) / 1.055f, 2.4f);
}

template <typename T>
T number_at(uintptr_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

// One channel as an integer, or as the fraction of its type's greatest value.
template <typename T>
uint32_t integer_channel(uintptr_t address, bool fraction) {
  const T value = number_at<T>(address);
  if (!fraction) return static_cast<uint32_t>(static_cast<int32_t>(value));
  constexpr float kGreatest = static_cast<float>(std::numeric_limits<T>::max());
  return std::bit_cast<uint32_t>(std::max(static_cast<float>(value) / kGreatest, -1.0f));
}

uint32_t channel_at(int format, uintptr_t address, bool floats) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return integer_channel<uint8_t>(address, floats);
    case CU_AD_FORMAT_SIGNED_INT8:
      return integer_channel<int8_t>(address, floats);
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return integer_channel<uint16_t>(address, floats);
    case CU_AD_FORMAT_SIGNED_INT16:
      return integer_channel<int16_t>(address, floats);
    case CU_AD_FORMAT_HALF:
      return std::bit_cast<uint32_t>(float_of_half(number_at<uint16_t>(address)));
    default:
      return number_at<uint32_t>(address);
  }
}

Texel element_at(const Texture& texture, uintptr_t address) {
  Texel texel;
  if (texture.channel_bytes == 4) {
    for (unsigned i = 0; i < texture.format.channels; i++) {
      texel.words[i] = number_at<uint32_t>(address + 4 * i);
    }
    return texel;
  }
  const size_t step = texture.channel_bytes;
  for (unsigned i = 0; i < texture.format.channels; i++) {
    uint32_t& word = texel.words[i];
    word = channel_at(texture.format.format, address + i * step, texture.gives_floats);
    if ((texture.descriptor.flags & CU_TRSF_SRGB) && texture.gives_floats && i < 3) {
      word = std::bit_cast<uint32_t>(linear_of_srgb(std::bit_cast<float>(word)));
    }
  }
  return texel;
}

// As the program gave it: where integers are read, the bits of its floats are the integers.
Texel border_of(const Texture& texture) {
  Texel texel;
  for (unsigned i = 0; i < texture.format.channels; i++) {
    texel.words[i] = std::bit_cast<uint32_t>(texture.descriptor.borderColor[i]);
  }
  return texel;
}

// Nothing beyond this is told apart: far outside of any texture, and exact as an integer.
constexpr float kFarAway = 1 << 24;

// Without std::floor, which is many instructions where it may not be one.
int64_t floor_of(float value) {
  if (!(value > -kFarAway)) return -static_cast<int64_t>(kFarAway);  // no number too
  if (value >= kFarAway) return static_cast<int64_t>(kFarAway);
  const auto towards_zero = static_cast<int32_t>(value);
  return towards_zero - (static_cast<float>(towards_zero) > value ? 1 : 0);
}

// The number of the element that stands for one outside; false: the border does.
bool put_inside(CUaddress_mode mode, int64_t size, int64_t* index) {
  if (*index >= 0 && *index < size) return true;
  switch (mode) {
    case CU_TR_ADDRESS_MODE_BORDER:
      return false;
    case CU_TR_ADDRESS_MODE_WRAP:
      *index = (*index % size + size) % size;
      return true;
    case CU_TR_ADDRESS_MODE_MIRROR: {
      const int64_t turn = (*index % (2 * size) + 2 * size) % (2 * size);
      *index = turn < size ? turn : 2 * size - 1 - turn;
      return true;
    }
    default:
      *index = *index < 0 ? 0 : size - 1;
      return true;
  }
}

// A coordinate of one dimension: the element below it, and how far it is on the way to the next, in
// steps of 1/256, as the unit of a GPU has it.
struct Place {
  int64_t first = 0;
  float weight = 0;  // of the next
};

// One dimension of a position.
struct Axis {
  int64_t size;
  CUaddress_mode mode;
  Place place;
};

bool mixes(const Texture& texture) {
  return texture.descriptor.filterMode == CU_TR_FILTER_MODE_LINEAR && texture.gives_floats;
}

// In elements.
float scaled(const Texture& texture, CUaddress_mode mode, float coordinate, size_t size) {
  if (!texture.normalised) return coordinate;
  // The turn is taken off before the product, which would lose what is behind the point.
  if (mode == CU_TR_ADDRESS_MODE_WRAP) coordinate -= std::floor(coordinate);
  if (mode == CU_TR_ADDRESS_MODE_MIRROR) coordinate -= 2 * std::floor(coordinate / 2);
  return coordinate * static_cast<float>(size);
}

Axis axis_of(const Texture& texture, int number, float coordinate, size_t size, bool filtered) {
  Axis axis;
  axis.size = static_cast<int64_t>(size);
  axis.mode = texture.modes[number];
  coordinate = scaled(texture, axis.mode, coordinate, size);
  if (!filtered) {
    axis.place.first = floor_of(coordinate);
    return axis;
  }
  const float from_centre = coordinate - 0.5f;
  axis.place.first = floor_of(from_centre);
  const float way = from_centre - std::floor(from_centre);
  if (way >= 0) axis.place.weight = std::floor(way * 256 + 0.5f) / 256;
  return axis;
}

Texel element_of(const Texture& texture, const TexturePlane& plane, const Axis* axes, int count,
                 const int64_t* steps, size_t slice) {
  int64_t at[3] = {0, 0, static_cast<int64_t>(slice)};
  for (int i = 0; i < count; i++) {
    at[i] = axes[i].place.first + steps[i];
    if (!put_inside(axes[i].mode, axes[i].size, &at[i])) return border_of(texture);
  }
  return element_at(texture, plane.base + static_cast<size_t>(at[2]) * plane.slice_bytes +
                                 static_cast<size_t>(at[1]) * plane.row_bytes +
                                 static_cast<size_t>(at[0]) * texture.element_bytes);
}

void add(Texel& sum, const Texel& part, float weight) {
  for (int i = 0; i < 4; i++) {
    const float mixed =
        std::bit_cast<float>(sum.words[i]) + weight * std::bit_cast<float>(part.words[i]);
    sum.words[i] = std::bit_cast<uint32_t>(mixed);
  }
}

// One level, by one to three coordinates, filtered if the texture says so.
Texel sample_plane(const Texture& texture, const TexturePlane& plane, int count,
                   const float* coordinates, size_t slice) {
  const bool filtered = mixes(texture);
  const size_t sizes[] = {plane.width, plane.height, plane.slices};
  Axis axes[3];
  for (int i = 0; i < count; i++) {
    axes[i] = axis_of(texture, i, coordinates[i], sizes[i], filtered);
  }
  int64_t steps[3] = {};
  if (!filtered) return element_of(texture, plane, axes, count, steps, slice);
  Texel sum;
  for (int corner = 0; corner < 1 << count; corner++) {
    float weight = 1;
    for (int i = 0; i < count; i++) {
      steps[i] = corner >> i & 1;
      weight *= steps[i] ? axes[i].place.weight : 1 - axes[i].place.weight;
    }
    // What does not count is not read: beyond an edge it may be no number.
    if (weight != 0) {
      add(sum, element_of(texture, plane, axes, count, steps, slice), weight);
    }
  }
  return sum;
}

// Over the levels of a mipmapped array.
template <typename SampleLevel>
Texel sample_levels(const Texture& texture, float level, SampleLevel sample_level) {
  const CUDA_TEXTURE_DESC& d = texture.descriptor;
  const auto last = static_cast<float>(texture.levels.size() - 1);
  if (last == 0) return sample_level(texture.levels[0]);
  level = std::clamp(level + d.mipmapLevelBias, d.minMipmapLevelClamp,
                     std::max(d.minMipmapLevelClamp, d.maxMipmapLevelClamp));
  level = level > 0 ? std::min(level, last) : 0;  // no number: the first
  if (d.mipmapFilterMode == CU_TR_FILTER_MODE_POINT || !texture.gives_floats) {
    return sample_level(texture.levels[static_cast<size_t>(std::floor(level + 0.5f))]);
  }
  const auto below = static_cast<size_t>(level);
  const float weight = std::floor((level - std::floor(level)) * 256 + 0.5f) / 256;
  Texel sum;
  if (weight != 1) add(sum, sample_level(texture.levels[below]), 1 - weight);
  if (weight != 0) {
    add(sum, sample_level(texture.levels[std::min(below + 1, texture.levels.size() - 1)]), weight);
  }
  return sum;
}

const Texture& whole(const emulated_texture* functions) {
  return *reinterpret_cast<const Texture*>(functions);
}

void give(const Texel& texel, uint32_t* words) {
  std::memcpy(words, texel.words, sizeof texel.words);
}

void fetch(const emulated_texture* functions, int64_t index, uint32_t words[4]) {
  const Texture& texture = whole(functions);
  const TexturePlane& plane = texture.levels[0];
  const bool inside = index >= 0 && static_cast<size_t>(index) < plane.width;
  give(inside ? element_at(texture, plane.base + static_cast<size_t>(index) * texture.element_bytes)
              : Texel{},
       words);
}

size_t slice_of(const TexturePlane& plane, int32_t layer) {
  return layer < 0 ? 0 : std::min<size_t>(static_cast<size_t>(layer), plane.slices - 1);
}

void sample(const emulated_texture* functions, int dimensions, const emulated_position* at,
            uint32_t words[4]) {
  const Texture& texture = whole(functions);
  const float coordinates[] = {at->x, at->y, at->z};
  give(sample_levels(texture, at->level,
                     [&](const TexturePlane& plane) {
                       return sample_plane(texture, plane, dimensions, coordinates,
                                           dimensions == 3 ? 0 : slice_of(plane, at->layer));
                     }),
       words);
}

// The same for what is neither filtered nor has levels: most of what kernels read.
void sample_nearest(const emulated_texture* functions, int dimensions, const emulated_position* at,
                    uint32_t words[4]) {
  const Texture& texture = whole(functions);
  const TexturePlane& plane = texture.levels[0];
  const float coordinates[] = {at->x, at->y, at->z};
  const size_t sizes[] = {plane.width, plane.height, plane.slices};
  const size_t steps[] = {texture.element_bytes, plane.row_bytes, plane.slice_bytes};
  uintptr_t address = plane.base;
  if (dimensions < 3) address += slice_of(plane, at->layer) * plane.slice_bytes;
  for (int i = 0; i < dimensions; i++) {
    const CUaddress_mode mode = texture.modes[i];
    int64_t index = floor_of(scaled(texture, mode, coordinates[i], sizes[i]));
    if (!put_inside(mode, static_cast<int64_t>(sizes[i]), &index)) {
      return give(border_of(texture), words);
    }
    address += static_cast<size_t>(index) * steps[i];
  }
  give(element_at(texture, address), words);
}

// The face that a direction meets, and where on it.
size_t face_of(float x, float y, float z, float* s, float* t) {
  const float along_x = std::fabs(x), along_y = std::fabs(y), along_z = std::fabs(z);
  size_t face;
  float across, down, along;
  if (along_x >= along_y && along_x >= along_z) {
    face = x < 0 ? 1 : 0;
    along = along_x, across = x < 0 ? z : -z, down = -y;
  } else if (along_y >= along_z) {
    face = y < 0 ? 3 : 2;
    along = along_y, across = x, down = y < 0 ? -z : z;
  } else {
    face = z < 0 ? 5 : 4;
    along = along_z, across = z < 0 ? -x : x, down = -y;
  }
  if (along == 0) along = 1;
  *s = (across / along + 1) / 2;
  *t = (down / along + 1) / 2;
  return face;
}

void sample_cube(const emulated_texture* functions, const emulated_position* at,
                 uint32_t words[4]) {
  const Texture& texture = whole(functions);
  float on_face[2];
  const size_t face = face_of(at->x, at->y, at->z, &on_face[0], &on_face[1]);
  auto sample_face = [&](const TexturePlane& plane) {
    const size_t layers = std::max<size_t>(plane.slices / 6, 1);
    const size_t layer =
        at->layer < 0 ? 0 : std::min<size_t>(static_cast<size_t>(at->layer), layers - 1);
    return sample_plane(texture, plane, 2, on_face, std::min(layer * 6 + face, plane.slices - 1));
  };
  give(sample_levels(texture, at->level, sample_face), words);
}

void gather(const emulated_texture* functions, float x, float y, int channel, uint32_t words[4]) {
  const Texture& texture = whole(functions);
  const TexturePlane& plane = texture.levels[0];
  const Axis axes[] = {axis_of(texture, 0, x, plane.width, true),
                       axis_of(texture, 1, y, plane.height, true)};
  constexpr int64_t kOrder[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  for (int i = 0; i < 4; i++) {
    words[i] = element_of(texture, plane, axes, 2, kOrder[i], 0).words[channel & 3];
  }
}

float level_of(const emulated_texture* functions, int dimensions, const float dx[3],
               const float dy[3]) {
  const Texture& texture = whole(functions);
  const TexturePlane& plane = texture.levels[0];
  const size_t sizes[] = {plane.width, plane.height, plane.slices};
  float squares[2] = {};
  for (int i = 0; i < dimensions; i++) {
    const float scale = texture.normalised ? static_cast<float>(sizes[i]) : 1;
    squares[0] += dx[i] * scale * dx[i] * scale;
    squares[1] += dy[i] * scale * dy[i] * scale;
  }
  const float largest = std::max(squares[0], squares[1]);
  return largest > 0 ? 0.5f * std::log2(largest) : 0;
}

void* surface_element(const emulated_surface* functions, int64_t x_bytes, int64_t y, int64_t z,
                      uint32_t bytes, emulated_boundary boundary) {
  const TexturePlane& plane = reinterpret_cast<const Surface*>(functions)->plane;
  const int64_t last[] = {static_cast<int64_t>(plane.row_bytes) - bytes,
                          static_cast<int64_t>(plane.height) - 1,
                          static_cast<int64_t>(plane.slices) - 1};
  int64_t at[] = {x_bytes, y, z};
  for (int i = 0; i < 3; i++) {
    if (last[i] < 0) return nullptr;
    if (at[i] >= 0 && at[i] <= last[i]) continue;
    if (boundary != EMULATED_BOUNDARY_CLAMP) return nullptr;
    at[i] = at[i] < 0 ? 0 : last[i];
  }
  return reinterpret_cast<void*>(plane.base + static_cast<size_t>(at[2]) * plane.slice_bytes +
                                 static_cast<size_t>(at[1]) * plane.row_bytes +
                                 static_cast<size_t>(at[0]));
}

}  // namespace

bool format_of_view(CUresourceViewFormat view, ElementFormat* format) {
  if (view < CU_RES_VIEW_FORMAT_UINT_1X8 || view > CU_RES_VIEW_FORMAT_FLOAT_4X32) return false;
  constexpr int kKinds[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                            CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                            CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                            CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
  const int number = view - CU_RES_VIEW_FORMAT_UINT_1X8;
  format->format = kKinds[number / 3];
  format->channels = 1u << number % 3;
  return true;
}

void finish_texture(Texture& texture) {
  const bool is_float =
      texture.format.format == CU_AD_FORMAT_FLOAT || texture.format.format == CU_AD_FORMAT_HALF;
  texture.channel_bytes = texture.format.channel_bytes();
  texture.element_bytes = texture.format.bytes();
  texture.normalised = texture.descriptor.flags & CU_TRSF_NORMALIZED_COORDINATES;
  for (int i = 0; i < 3; i++) {
    texture.modes[i] = texture.descriptor.addressMode[i];
    // Wrapping and mirroring are of normalised coordinates only.
    const bool turns = texture.modes[i] == CU_TR_ADDRESS_MODE_WRAP ||
                       texture.modes[i] == CU_TR_ADDRESS_MODE_MIRROR;
    if (turns && !texture.normalised) texture.modes[i] = CU_TR_ADDRESS_MODE_CLAMP;
  }
  const bool narrow = texture.channel_bytes < 4;
  texture.gives_floats =
      is_float || (narrow && !(texture.descriptor.flags & CU_TRSF_READ_AS_INTEGER));
  const bool nearest = texture.levels.size() == 1 && !mixes(texture);
  texture.functions = {EMULATED_TEXTURE_ABI_VERSION,
                       fetch,
                       nearest ? sample_nearest : sample,
                       sample_cube,
                       gather,
                       level_of};
}

void finish_surface(Surface& surface) {
  surface.functions = {EMULATED_TEXTURE_ABI_VERSION, surface_element};
}

}  // namespace lambent::emulated_cuda
