#include "emulator/emulated_cuda/textures.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace lambent::emulated_cuda {
namespace {

constexpr unsigned kNormalised = CU_TRSF_NORMALIZED_COORDINATES;

// A texture over numbers of the test, width by height by slices.
template <typename T>
class Image {
 public:
  Image(std::vector<T> values, ElementFormat format, size_t width, size_t height = 1,
        size_t slices = 1)
      : values_(std::move(values)) {
    texture_.format = format;
    const size_t row = width * format.bytes();
    texture_.levels = {
        {reinterpret_cast<uintptr_t>(values_.data()), width, height, slices, row, row * height}};
    for (auto& mode : texture_.descriptor.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  }

  CUDA_TEXTURE_DESC& how() { return texture_.descriptor; }
  Texture& texture() { return texture_; }
  Image& address(CUaddress_mode mode) {
    for (auto& each : texture_.descriptor.addressMode) each = mode;
    return *this;
  }

  std::vector<uint32_t> words(int dimensions, emulated_position at) {
    finish_texture(texture_);
    std::vector<uint32_t> found(4);
    texture_.functions.sample(&texture_.functions, dimensions, &at, found.data());
    return found;
  }
  float at(float x) { return first(words(1, {x, 0, 0, 0, 0})); }
  float at(float x, float y, int layer = 0) { return first(words(2, {x, y, 0, layer, 0})); }
  float at3(float x, float y, float z) { return first(words(3, {x, y, z, 0, 0})); }

 private:
  static float first(const std::vector<uint32_t>& words) { return std::bit_cast<float>(words[0]); }
  std::vector<T> values_;
  Texture texture_;
};

Image<float> ramp(size_t width) {
  std::vector<float> values;
  for (size_t i = 0; i < width; i++) values.push_back(static_cast<float>(10 * (i + 1)));
  return {values, {CU_AD_FORMAT_FLOAT, 1}, width};
}

TEST(Textures, PointsAreTheElementsThatTheyLieIn) {
  auto image = ramp(4);
  EXPECT_EQ(image.at(0.0f), 10);
  EXPECT_EQ(image.at(0.99f), 10);
  EXPECT_EQ(image.at(1.0f), 20);
  EXPECT_EQ(image.at(3.5f), 40);
}

TEST(Textures, ALinearFilterMixesNeighboursByTheirCentres) {
  auto image = ramp(4);
  image.how().filterMode = CU_TR_FILTER_MODE_LINEAR;
  EXPECT_EQ(image.at(0.5f), 10);
  EXPECT_EQ(image.at(1.0f), 15);
  EXPECT_EQ(image.at(1.25f), 17.5f);
  EXPECT_EQ(image.at(3.9f), 40);
  EXPECT_EQ(image.at(-7.0f), 10);
}

TEST(Textures, WeightsHaveEightBits) {
  auto image = ramp(4);
  image.how().filterMode = CU_TR_FILTER_MODE_LINEAR;
  // 1/1000 rounds to 0/256, 3/1000 to 1/256.
  EXPECT_EQ(image.at(0.501f), 10);
  EXPECT_EQ(image.at(0.503f), 10 + 10.0f / 256);
}

TEST(Textures, AddressesOutsideFollowTheMode) {
  auto image = ramp(4);
  image.how().flags = kNormalised;
  image.address(CU_TR_ADDRESS_MODE_CLAMP);
  EXPECT_EQ(image.at(-0.6f), 10);
  EXPECT_EQ(image.at(1.1f), 40);
  image.address(CU_TR_ADDRESS_MODE_WRAP);
  EXPECT_EQ(image.at(1.1f), 10);
  EXPECT_EQ(image.at(-0.1f), 40);
  EXPECT_EQ(image.at(5.3f), 20);
  image.address(CU_TR_ADDRESS_MODE_MIRROR);
  EXPECT_EQ(image.at(1.1f), 40);
  EXPECT_EQ(image.at(1.3f), 30);
  EXPECT_EQ(image.at(-0.3f), 20);
  image.address(CU_TR_ADDRESS_MODE_BORDER);
  image.how().borderColor[0] = 7;
  EXPECT_EQ(image.at(1.1f), 7);
  EXPECT_EQ(image.at(-0.1f), 7);
}

TEST(Textures, WrappingAndMirroringNeedNormalisedCoordinates) {
  auto image = ramp(4);
  EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_WRAP).at(5.0f), 40);
  EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_MIRROR).at(-2.0f), 10);
}

TEST(Textures, AFilterAcrossTheEdgeMixesWhatTheModeSays) {
  auto image = ramp(4);
  image.how().filterMode = CU_TR_FILTER_MODE_LINEAR;
  image.how().flags = kNormalised;
  EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_WRAP).at(0.0f), 25);    // 40 and 10
  EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_MIRROR).at(0.0f), 10);  // 10 and 10
  EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_BORDER).at(0.0f), 5);   // 0 and 10
}

TEST(Textures, TwoAndThreeDimensionsAreMixedInEach) {
  Image<float> flat({0, 1, 2, 3}, {CU_AD_FORMAT_FLOAT, 1}, 2, 2);
  flat.how().filterMode = CU_TR_FILTER_MODE_LINEAR;
  EXPECT_EQ(flat.at(1, 1), 1.5f);
  EXPECT_EQ(flat.at(0.5f, 1), 1);
  Image<float> box({0, 1, 2, 3, 4, 5, 6, 7}, {CU_AD_FORMAT_FLOAT, 1}, 2, 2, 2);
  EXPECT_EQ(box.at3(1.5f, 0.5f, 1.5f), 5);
  box.how().filterMode = CU_TR_FILTER_MODE_LINEAR;
  EXPECT_EQ(box.at3(1, 1, 1), 3.5f);
}

TEST(Textures, LayersAreNotMixedAndStayInside) {
  Image<float> layers({1, 2, 3}, {CU_AD_FORMAT_FLOAT, 1}, 1, 1, 3);
  layers.how().filterMode = CU_TR_FILTER_MODE_LINEAR;
  EXPECT_EQ(layers.at(0.5f, 0.5f, 1), 2);
  EXPECT_EQ(layers.at(0.5f, 0.5f, 9), 3);
  EXPECT_EQ(layers.at(0.5f, 0.5f, -4), 1);
}

TEST(Textures, SmallIntegersBecomeFractionsUnlessReadAsThemselves) {
  Image<uint8_t> bytes({0, 128, 255, 3}, {CU_AD_FORMAT_UNSIGNED_INT8, 4}, 1);
  const auto fractions = bytes.words(1, {0, 0, 0, 0, 0});
  EXPECT_EQ(std::bit_cast<float>(fractions[1]), 128 / 255.0f);
  EXPECT_EQ(std::bit_cast<float>(fractions[2]), 1);
  bytes.how().flags = CU_TRSF_READ_AS_INTEGER;
  EXPECT_EQ(bytes.words(1, {0, 0, 0, 0, 0}), (std::vector<uint32_t>{0, 128, 255, 3}));

  Image<int16_t> shorts({-32768, 32767}, {CU_AD_FORMAT_SIGNED_INT16, 2}, 1);
  const auto ends = shorts.words(1, {0, 0, 0, 0, 0});
  EXPECT_EQ(std::bit_cast<float>(ends[0]), -1);
  EXPECT_EQ(std::bit_cast<float>(ends[1]), 1);
  shorts.how().flags = CU_TRSF_READ_AS_INTEGER;
  EXPECT_EQ(static_cast<int32_t>(shorts.words(1, {0, 0, 0, 0, 0})[0]), -32768);
}

TEST(Textures, HalvesAreFloats) {
  Image<uint16_t> halves({0x3C00, 0xC000, 0x0001, 0x7C00}, {CU_AD_FORMAT_HALF, 1}, 4);
  EXPECT_EQ(halves.at(0), 1);
  EXPECT_EQ(halves.at(1), -2);
  EXPECT_EQ(halves.at(2), std::ldexp(1.0f, -24));
  EXPECT_EQ(halves.at(3), std::numeric_limits<float>::infinity());
}

TEST(Textures, ColoursAreMadeLinear) {
  Image<uint8_t> colour({128, 255, 0, 128}, {CU_AD_FORMAT_UNSIGNED_INT8, 4}, 1);
  colour.how().flags = CU_TRSF_SRGB;
  const auto words = colour.words(1, {0, 0, 0, 0, 0});
  EXPECT_NEAR(std::bit_cast<float>(words[0]), 0.2158605f, 1e-6f);
  EXPECT_EQ(std::bit_cast<float>(words[1]), 1);
  EXPECT_EQ(std::bit_cast<float>(words[3]), 128 / 255.0f);
}

// With points and filtered, by elements and by fractions.
template <typename Check>
void in_each_reading(Image<float>& image, Check check) {
  for (const auto filter : {CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR}) {
    for (const unsigned flags : {0u, kNormalised}) {
      image.how().filterMode = filter;
      image.how().flags = flags;
      check();
    }
  }
}

TEST(Textures, CoordinatesFarAwayReadAnEdgeOrTheBorder) {
  auto image = ramp(4);
  image.how().borderColor[0] = 7;
  in_each_reading(image, [&] {
    image.address(CU_TR_ADDRESS_MODE_CLAMP);
    EXPECT_EQ(image.at(INFINITY), 40);
    EXPECT_EQ(image.at(3e38f), 40);
    EXPECT_EQ(image.at(-INFINITY), 10);
    EXPECT_EQ(image.at(-3e38f), 10);
    image.address(CU_TR_ADDRESS_MODE_BORDER);
    for (const float x : {INFINITY, 3e38f, -INFINITY, -3e38f}) EXPECT_EQ(image.at(x), 7);
  });
}

TEST(Textures, CoordinatesThatAreNoNumbersAreFarBelow) {
  auto image = ramp(4);
  image.how().borderColor[0] = 7;
  in_each_reading(image, [&] {
    EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_CLAMP).at(NAN), 10);
    EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_BORDER).at(NAN), 7);
    // A whole number of turns below is the first, and its mirror the first too.
    EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_WRAP).at(NAN), 10);
    EXPECT_EQ(image.address(CU_TR_ADDRESS_MODE_MIRROR).at(NAN), 10);
  });
}

TEST(Textures, BordersOfIntegersAreTheBitsOfTheColour) {
  Image<int32_t> numbers({5}, {CU_AD_FORMAT_SIGNED_INT32, 1}, 1);
  numbers.address(CU_TR_ADDRESS_MODE_BORDER);
  numbers.how().borderColor[0] = std::bit_cast<float>(-12);
  numbers.how().borderColor[1] = 1;
  EXPECT_EQ(numbers.words(1, {3, 0, 0, 0, 0}),
            (std::vector<uint32_t>{static_cast<uint32_t>(-12), 0, 0, 0}));
  EXPECT_EQ(numbers.words(1, {0, 0, 0, 0, 0})[0], 5u);
}

// By the direction in which a face is looked at, its columns (s) and rows (t) run along other axes.
TEST(Textures, FacesOfACubeAreMetByDirection) {
  std::vector<float> faces;
  for (int texel = 0; texel < 24; texel++) faces.push_back(static_cast<float>(texel));
  Image<float> cube(faces, {CU_AD_FORMAT_FLOAT, 1}, 2, 2, 6);
  cube.how().flags = kNormalised;
  finish_texture(cube.texture());
  // Where s and t grow, for +x, -x, +y, -y, +z and -z.
  const int along[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
  const int s_grows[6][3] = {{0, 0, -1}, {0, 0, 1}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {-1, 0, 0}};
  const int t_grows[6][3] = {{0, -1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}, {0, -1, 0}, {0, -1, 0}};
  for (int face = 0; face < 6; face++) {
    for (int texel = 0; texel < 4; texel++) {
      const float s = texel % 2 ? 0.5f : -0.5f, t = texel / 2 ? 0.5f : -0.5f;
      float d[3];
      for (int i = 0; i < 3; i++) {
        d[i] = 3 * (static_cast<float>(along[face][i]) + s * static_cast<float>(s_grows[face][i]) +
                    t * static_cast<float>(t_grows[face][i]));
      }
      const emulated_position at{d[0], d[1], d[2], 0, 0};
      uint32_t words[4];
      cube.texture().functions.sample_cube(&cube.texture().functions, &at, words);
      EXPECT_EQ(std::bit_cast<float>(words[0]), static_cast<float>(4 * face + texel));
    }
  }
}

TEST(Textures, LevelsAreChosenAndMixed) {
  std::vector<float> small = {100};
  auto image = ramp(2);
  auto& levels = image.texture().levels;
  levels.push_back({reinterpret_cast<uintptr_t>(small.data()), 1, 1, 1, 4, 4});
  image.how().flags = kNormalised;
  image.how().maxMipmapLevelClamp = 9;
  const auto at_level = [&](float level) {
    return std::bit_cast<float>(image.words(1, {0.25f, 0, 0, 0, level})[0]);
  };
  EXPECT_EQ(at_level(0), 10);
  EXPECT_EQ(at_level(0.4f), 10);
  EXPECT_EQ(at_level(0.6f), 100);
  EXPECT_EQ(at_level(40), 100);
  image.how().mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
  EXPECT_EQ(at_level(0.5f), 55);
  image.how().maxMipmapLevelClamp = 0;
  EXPECT_EQ(at_level(1), 10);
  image.how().maxMipmapLevelClamp = 9;
  image.how().mipmapLevelBias = 1;
  EXPECT_EQ(at_level(0), 100);
  const float dx[] = {1.0f}, dy[] = {0.0f};  // two elements a step: one level up
  EXPECT_EQ(image.texture().functions.level(&image.texture().functions, 1, dx, dy), 1);
}

TEST(Textures, GatheredAreTheFourThatAFilterWouldMix) {
  Image<float> flat({0, 1, 2, 3}, {CU_AD_FORMAT_FLOAT, 1}, 2, 2);
  finish_texture(flat.texture());
  uint32_t words[4];
  flat.texture().functions.gather(&flat.texture().functions, 1, 1, 0, words);
  const float expected[] = {2, 3, 1, 0};
  for (int i = 0; i < 4; i++) EXPECT_EQ(std::bit_cast<float>(words[i]), expected[i]);
}

TEST(Textures, FetchesOutsideAreZero) {
  auto image = ramp(4);
  finish_texture(image.texture());
  const auto fetch = [&](int64_t index) {
    uint32_t words[4];
    image.texture().functions.fetch(&image.texture().functions, index, words);
    return std::bit_cast<float>(words[0]);
  };
  EXPECT_EQ(fetch(3), 40);
  EXPECT_EQ(fetch(4), 0);
  EXPECT_EQ(fetch(-1), 0);
}

TEST(Textures, ViewsNamePlainFormatsOnly) {
  ElementFormat format;
  ASSERT_TRUE(format_of_view(CU_RES_VIEW_FORMAT_FLOAT_4X32, &format));
  EXPECT_EQ(format.format, CU_AD_FORMAT_FLOAT);
  EXPECT_EQ(format.channels, 4u);
  ASSERT_TRUE(format_of_view(CU_RES_VIEW_FORMAT_SINT_1X16, &format));
  EXPECT_EQ(format.format, CU_AD_FORMAT_SIGNED_INT16);
  EXPECT_FALSE(format_of_view(CU_RES_VIEW_FORMAT_UNSIGNED_BC7, &format));
}

TEST(Surfaces, BoundariesAreZeroClampedOrNowhere) {
  std::vector<float> values(8);
  Surface surface;
  surface.plane = {reinterpret_cast<uintptr_t>(values.data()), 4, 2, 1, 16, 32};
  finish_surface(surface);
  const auto element = [&](int64_t x, int64_t y, uint32_t bytes, emulated_boundary boundary) {
    return surface.functions.element(&surface.functions, x, y, 0, bytes, boundary);
  };
  EXPECT_EQ(element(4, 1, 4, EMULATED_BOUNDARY_TRAP), &values[5]);
  EXPECT_EQ(element(16, 0, 4, EMULATED_BOUNDARY_TRAP), nullptr);
  EXPECT_EQ(element(14, 0, 4, EMULATED_BOUNDARY_ZERO), nullptr);
  EXPECT_EQ(element(-4, 0, 4, EMULATED_BOUNDARY_ZERO), nullptr);
  EXPECT_EQ(element(99, 7, 4, EMULATED_BOUNDARY_CLAMP), &values[7]);
  EXPECT_EQ(element(-99, -7, 4, EMULATED_BOUNDARY_CLAMP), &values[0]);
  EXPECT_EQ(element(0, 0, 32, EMULATED_BOUNDARY_CLAMP), nullptr);
}

}  // namespace
}  // namespace lambent::emulated_cuda
