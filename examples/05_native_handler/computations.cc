#include "computations.h"

#include <cmath>
#include <complex>

namespace lambent::examples {
namespace {

constexpr unsigned kTile = 16;
constexpr int kSteps = 50;

std::vector<float> pattern(size_t count, unsigned modulus) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i % modulus) - static_cast<float>(modulus / 2);
  }
  return values;
}

unsigned blocks_of(unsigned count, unsigned block) { return (count + block - 1) / block; }

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b,
                           unsigned size) {
  std::vector<float> c(size * size);
  for (unsigned row = 0; row < size; ++row) {
    for (unsigned k = 0; k < size; ++k) {
      for (unsigned column = 0; column < size; ++column) {
        c[row * size + column] += a[row * size + k] * b[k * size + column];
      }
    }
  }
  return c;
}

std::vector<float> spectrum(const std::vector<float>& signal) {
  const size_t points = signal.size() / 2;
  std::vector<float> result;
  for (size_t k = 0; k < points; ++k) {
    std::complex<double> sum;
    for (size_t n = 0; n < points; ++n) {
      const double angle = -2 * M_PI * static_cast<double>(k * n % points) / points;
      sum += std::complex<double>(signal[2 * n], signal[2 * n + 1]) * std::polar(1.0, angle);
    }
    result.push_back(static_cast<float>(sum.real()));
    result.push_back(static_cast<float>(sum.imag()));
  }
  return result;
}

void relax(const std::vector<float>& from, std::vector<float>& to, unsigned size) {
  for (unsigned y = 1; y + 1 < size; ++y) {
    for (unsigned i = y * size + 1; i + 1 < (y + 1) * size; ++i) {
      to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - size] + from[i + size]);
    }
  }
}

}  // namespace

Result<std::unique_ptr<Computations>> Computations::load(const std::string& bundles) {
  ASSIGN_OR_RETURN(auto gpu, Gpu::open(bundles));
  std::unique_ptr<Computations> made(new Computations(std::move(gpu)));
  ASSIGN_OR_RETURN(made->add_, made->gpu_->kernel("vector_add", "vector_add"));
  ASSIGN_OR_RETURN(made->multiply_, made->gpu_->kernel("matmul_tiled", "matmul_tiled_16"));
  ASSIGN_OR_RETURN(made->transform_, made->gpu_->kernel("fft", "fft_forward"));
  ASSIGN_OR_RETURN(made->step_, made->gpu_->kernel("jacobi", "jacobi_step"));
  return made;
}

Result<Computed> Computations::vector_add(unsigned count, bool check) {
  const auto a = pattern(count, 1013), b = pattern(count, 17);
  ASSIGN_OR_RETURN(const auto on_a, gpu_->buffer_with(a));
  ASSIGN_OR_RETURN(const auto on_b, gpu_->buffer_with(b));
  ASSIGN_OR_RETURN(const auto on_c, gpu_->buffer(on_a.size()));
  RETURN_IF_ERROR(gpu_->launch(add_, {blocks_of(count, 256)}, {256}, 0, on_a.pointer(),
                               on_b.pointer(), on_c.pointer(), count));
  Computed computed;
  ASSIGN_OR_RETURN(computed.result, gpu_->read<float>(on_c));
  for (unsigned i = 0; check && i < count; ++i) computed.expected.push_back(a[i] + b[i]);
  return computed;
}

Result<Computed> Computations::matmul(unsigned size, bool check) {
  const auto a = pattern(size * size, 7), b = pattern(size * size, 5);
  ASSIGN_OR_RETURN(const auto on_a, gpu_->buffer_with(a));
  ASSIGN_OR_RETURN(const auto on_b, gpu_->buffer_with(b));
  ASSIGN_OR_RETURN(const auto on_c, gpu_->buffer(on_a.size()));
  const unsigned blocks = blocks_of(size, kTile);
  RETURN_IF_ERROR(gpu_->launch(multiply_, {blocks, blocks}, {kTile, kTile}, 0, on_a.pointer(),
                               on_b.pointer(), on_c.pointer(), static_cast<int>(size)));
  Computed computed;
  ASSIGN_OR_RETURN(computed.result, gpu_->read<float>(on_c));
  if (check) computed.expected = product(a, b, size);
  return computed;
}

Result<Computed> Computations::fft(unsigned points, bool check) {
  const auto signal = pattern(2 * points, 11);
  ASSIGN_OR_RETURN(const auto input, gpu_->buffer_with(signal));
  ASSIGN_OR_RETURN(const auto output, gpu_->buffer(input.size()));
  const unsigned shared_bytes = points * 4 * sizeof(float);
  RETURN_IF_ERROR(gpu_->launch(transform_, {1}, {points / 2}, shared_bytes, input.pointer(),
                               output.pointer(), static_cast<int>(points)));
  Computed computed;
  ASSIGN_OR_RETURN(computed.result, gpu_->read<float>(output));
  if (check) computed.expected = spectrum(signal);
  return computed;
}

Result<Computed> Computations::jacobi(unsigned size, bool check) {
  auto heat = pattern(size * size, 13);
  ASSIGN_OR_RETURN(auto from, gpu_->buffer_with(heat));
  ASSIGN_OR_RETURN(auto to, gpu_->buffer_with(heat));
  const unsigned blocks = blocks_of(size, 16);
  CUdeviceptr now = from.pointer(), after = to.pointer();
  for (int step = 0; step < kSteps; ++step) {
    RETURN_IF_ERROR(gpu_->launch(step_, {blocks, blocks}, {16, 16}, 0, now, after,
                                 static_cast<int>(size), static_cast<int>(size)));
    std::swap(now, after);
  }
  Computed computed;
  ASSIGN_OR_RETURN(computed.result, gpu_->read<float>(kSteps % 2 == 0 ? from : to));
  if (!check) return computed;
  auto next = heat;
  for (int step = 0; step < kSteps; ++step) {
    relax(heat, next, size);
    heat.swap(next);
  }
  computed.expected = heat;
  return computed;
}

}  // namespace lambent::examples
