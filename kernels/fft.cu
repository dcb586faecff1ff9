// Fast Fourier transforms of many signals at once, each of a power of two of complex points (real
// and imaginary parts interleaved). Radix 2 after Stockham: every pass reads one half and writes
// the other of a pair of buffers in shared memory, so no bit reversal is needed. Launch one block
// for each signal with points / 2 threads (at most 1024) and points * 4 * sizeof(float) bytes of
// dynamic shared memory.
#include <lambent/kernel.h>

extern "C" __global__ void fft_forward(const float2* __restrict__ input,
                                       float2* __restrict__ output, int points) {
  extern __shared__ float2 fft_buffers[];
  float2* from = fft_buffers;
  float2* to = fft_buffers + points;
  const int half = points / 2;
  const int i = threadIdx.x;
  const float2* signal = input + static_cast<size_t>(blockIdx.x) * points;

  from[i] = signal[i];
  from[i + half] = signal[i + half];
  __syncthreads();

  for (int stride = 1; stride < points; stride *= 2) {
    // Butterfly i of this pass combines points half apart; the results stand `stride` apart.
    const int k = i & (stride - 1);
    float sine, cosine;
    sincospif(-static_cast<float>(k) / static_cast<float>(stride), &sine, &cosine);
    const float2 a = from[i];
    const float2 b = from[i + half];
    const float2 turned = make_float2(b.x * cosine - b.y * sine, b.x * sine + b.y * cosine);
    const int place = 2 * i - k;
    to[place] = make_float2(a.x + turned.x, a.y + turned.y);
    to[place + stride] = make_float2(a.x - turned.x, a.y - turned.y);
    float2* other = from;
    from = to;
    to = other;
    __syncthreads();
  }

  float2* spectrum = output + static_cast<size_t>(blockIdx.x) * points;
  spectrum[i] = from[i];
  spectrum[i + half] = from[i + half];
}

LAMBENT_KERNEL(fft_forward);
