// The layers of the networks in build.py, written for clarity: each thread makes one element at a
// time. The first parameter is how long a launch takes on the modelled device, which build.py
// computes.
#include <lambent/kernel.h>

using Nanoseconds = unsigned long long;

namespace {

__device__ __forceinline__ int first_element() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int stride_of_elements() { return gridDim.x * blockDim.x; }

__device__ __forceinline__ float pixel(const float* image, int size, int y, int x) {
  return y < 0 || x < 0 || y >= size || x >= size ? 0.0f : image[y * size + x];
}

__device__ __forceinline__ float finished(float sum, const float* shortcut, int i, int relu) {
  if (shortcut != nullptr) sum += shortcut[i];
  return relu != 0 && sum < 0 ? 0.0f : sum;
}

}  // namespace

// Square images of `size`, a filter of kernel x kernel with as much padding as keeps the size at
// stride 1. The shortcut may be null.
extern "C" __global__ void convolution(Nanoseconds, const float* in, const float* filters,
                                       const float* bias, const float* shortcut, float* out,
                                       int in_channels, int size, int out_channels, int kernel,
                                       int stride, int relu) {
  const int out_size = (size + 2 * (kernel / 2) - kernel) / stride + 1;
  for (int i = first_element(); i < out_channels * out_size * out_size; i += stride_of_elements()) {
    const int channel = i / (out_size * out_size);
    const int y = i / out_size % out_size * stride - kernel / 2;
    const int x = i % out_size * stride - kernel / 2;
    float sum = bias[channel];
    for (int from = 0; from < in_channels; ++from) {
      const float* filter = filters + (channel * in_channels + from) * kernel * kernel;
      for (int j = 0; j < kernel * kernel; ++j) {
        sum += filter[j] * pixel(in + from * size * size, size, y + j / kernel, x + j % kernel);
      }
    }
    out[i] = finished(sum, shortcut, i, relu);
  }
}

// The same for 3 x 3 at stride 1 by Winograd's method: filters come transformed, 4 x 4 each, and
// every thread makes 2 x 2 elements.
extern "C" __global__ void winograd(Nanoseconds, const float* in, const float* filters,
                                    const float* bias, float* out, int in_channels, int size,
                                    int out_channels, int relu) {
  const int tiles = (size + 1) / 2;
  for (int i = first_element(); i < out_channels * tiles * tiles; i += stride_of_elements()) {
    const int channel = i / (tiles * tiles);
    const int y = i / tiles % tiles * 2;
    const int x = i % tiles * 2;
    float m[4][4] = {};
    for (int from = 0; from < in_channels; ++from) {
      const float* image = in + from * size * size;
      const float* filter = filters + (channel * in_channels + from) * 16;
      float rows[4][4];
      for (int j = 0; j < 4; ++j) {
        float d[4];
        for (int k = 0; k < 4; ++k) d[k] = pixel(image, size, y - 1 + k, x - 1 + j);
        rows[0][j] = d[0] - d[2];
        rows[1][j] = d[1] + d[2];
        rows[2][j] = d[2] - d[1];
        rows[3][j] = d[1] - d[3];
      }
      for (int k = 0; k < 4; ++k) {
        const float* d = rows[k];
        m[k][0] += filter[4 * k] * (d[0] - d[2]);
        m[k][1] += filter[4 * k + 1] * (d[1] + d[2]);
        m[k][2] += filter[4 * k + 2] * (d[2] - d[1]);
        m[k][3] += filter[4 * k + 3] * (d[1] - d[3]);
      }
    }
    for (int j = 0; j < 4; ++j) {
      const int row = y + j / 2;
      const int column = x + j % 2;
      if (row >= size || column >= size) continue;
      float columns[4];
      for (int k = 0; k < 4; ++k) {
        columns[k] = j / 2 == 0 ? m[0][k] + m[1][k] + m[2][k] : m[1][k] - m[2][k] - m[3][k];
      }
      const float sum =
          j % 2 == 0 ? columns[0] + columns[1] + columns[2] : columns[1] - columns[2] - columns[3];
      out[(channel * size + row) * size + column] = finished(bias[channel] + sum, nullptr, 0, relu);
    }
  }
}

// Square images of `size` with so many zeros around them; the shortcut may be null.
extern "C" __global__ void padded_convolution(Nanoseconds, const float* in, const float* filters,
                                              const float* bias, const float* shortcut, float* out,
                                              int in_channels, int size, int out_channels,
                                              int kernel, int stride, int padding, int relu) {
  const int out_size = (size + 2 * padding - kernel) / stride + 1;
  for (int i = first_element(); i < out_channels * out_size * out_size; i += stride_of_elements()) {
    const int channel = i / (out_size * out_size);
    const int y = i / out_size % out_size * stride - padding;
    const int x = i % out_size * stride - padding;
    float sum = bias[channel];
    for (int from = 0; from < in_channels; ++from) {
      const float* filter = filters + (channel * in_channels + from) * kernel * kernel;
      for (int j = 0; j < kernel * kernel; ++j) {
        sum += filter[j] * pixel(in + from * size * size, size, y + j / kernel, x + j % kernel);
      }
    }
    out[i] = finished(sum, shortcut, i, relu);
  }
}

// The largest or the mean of each window; what is outside of the image is not in it.
extern "C" __global__ void window_pool(Nanoseconds, const float* in, float* out, int channels,
                                       int size, int kernel, int stride, int padding, int mean) {
  const int out_size = (size + 2 * padding - kernel) / stride + 1;
  for (int i = first_element(); i < channels * out_size * out_size; i += stride_of_elements()) {
    const float* image = in + i / (out_size * out_size) * size * size;
    float largest = 0;
    float sum = 0;
    int count = 0;
    for (int j = 0; j < kernel * kernel; ++j) {
      const int y = i / out_size % out_size * stride - padding + j / kernel;
      const int x = i % out_size * stride - padding + j % kernel;
      if (y < 0 || x < 0 || y >= size || x >= size) continue;
      const float value = image[y * size + x];
      largest = count == 0 ? value : fmaxf(largest, value);
      sum += value;
      ++count;
    }
    out[i] = mean != 0 ? sum / count : largest;
  }
}

// Each channel scaled, shifted and cut off below zero.
extern "C" __global__ void scale_shift(Nanoseconds, const float* in, const float* scale,
                                       const float* shift, float* out, int channels, int size) {
  for (int i = first_element(); i < channels * size * size; i += stride_of_elements()) {
    const int channel = i / (size * size);
    out[i] = fmaxf(in[i] * scale[channel] + shift[channel], 0.0f);
  }
}

// The words and positions of a text, without kinds of tokens.
extern "C" __global__ void embed_words(Nanoseconds, const int* tokens, const float* words,
                                       const float* positions, float* out, int length, int hidden,
                                       int vocabulary) {
  for (int i = first_element(); i < length * hidden; i += stride_of_elements()) {
    const int token = min(max(tokens[i / hidden], 0), vocabulary - 1);
    out[i] = words[token * hidden + i % hidden] + positions[i];
  }
}

// Of each row the column of its largest number, the first of equal ones.
extern "C" __global__ void largest_column(Nanoseconds, const float* in, int* out, int rows,
                                          int columns) {
  for (int row = first_element(); row < rows; row += stride_of_elements()) {
    int best = 0;
    for (int i = 1; i < columns; ++i) {
      if (in[row * columns + i] > in[row * columns + best]) best = i;
    }
    out[row] = best;
  }
}

// 3 x 3 at stride 2 with padding.
extern "C" __global__ void max_pool(Nanoseconds, const float* in, float* out, int channels,
                                    int size) {
  const int out_size = (size - 1) / 2 + 1;
  for (int i = first_element(); i < channels * out_size * out_size; i += stride_of_elements()) {
    const float* image = in + i / (out_size * out_size) * size * size;
    const int y = i / out_size % out_size * 2;
    const int x = i % out_size * 2;
    float largest = image[y * size + x];
    for (int j = 0; j < 9; ++j) {
      const int row = y - 1 + j / 3;
      const int column = x - 1 + j % 3;
      if (row < 0 || column < 0 || row >= size || column >= size) continue;
      largest = fmaxf(largest, image[row * size + column]);
    }
    out[i] = largest;
  }
}

// Of a whole image.
extern "C" __global__ void mean_pool(Nanoseconds, const float* in, float* out, int channels,
                                     int size) {
  for (int i = first_element(); i < channels; i += stride_of_elements()) {
    float sum = 0;
    for (int j = 0; j < size * size; ++j) sum += in[i * size * size + j];
    out[i] = sum / (size * size);
  }
}

// out (rows x n) = in (rows x k) * weights (n x k), transposed, + bias.
extern "C" __global__ void dense(Nanoseconds, const float* in, const float* weights,
                                 const float* bias, float* out, int rows, int k, int n, int gelu) {
  for (int i = first_element(); i < rows * n; i += stride_of_elements()) {
    float sum = bias[i % n];
    for (int j = 0; j < k; ++j) sum += in[i / n * k + j] * weights[i % n * k + j];
    out[i] = gelu == 0 ? sum : 0.5f * sum * (1 + erff(sum * 0.70710678f));
  }
}

extern "C" __global__ void embed(Nanoseconds, const int* tokens, const int* segments,
                                 const float* words, const float* positions, const float* kinds,
                                 float* out, int length, int hidden, int vocabulary) {
  for (int i = first_element(); i < length * hidden; i += stride_of_elements()) {
    const int token = min(max(tokens[i / hidden], 0), vocabulary - 1);
    const int kind = segments[i / hidden] != 0 ? 1 : 0;
    out[i] = words[token * hidden + i % hidden] + positions[i] + kinds[kind * hidden + i % hidden];
  }
}

// scores (heads x length x length) of queries and keys (length x hidden).
extern "C" __global__ void attention_scores(Nanoseconds, const float* queries, const float* keys,
                                            float* scores, int length, int heads, int depth) {
  for (int i = first_element(); i < heads * length * length; i += stride_of_elements()) {
    const int head = i / (length * length);
    const float* query = queries + (i / length % length * heads + head) * depth;
    const float* key = keys + (i % length * heads + head) * depth;
    float sum = 0;
    for (int j = 0; j < depth; ++j) sum += query[j] * key[j];
    scores[i] = sum * rsqrtf(static_cast<float>(depth));
  }
}

// In place, a thread for each row.
extern "C" __global__ void softmax(Nanoseconds, float* values, int rows, int columns) {
  for (int row = first_element(); row < rows; row += stride_of_elements()) {
    float* value = values + row * columns;
    float largest = value[0];
    for (int i = 1; i < columns; ++i) largest = fmaxf(largest, value[i]);
    float sum = 0;
    for (int i = 0; i < columns; ++i) sum += value[i] = expf(value[i] - largest);
    for (int i = 0; i < columns; ++i) value[i] /= sum;
  }
}

// out (length x hidden): what each head mixes from the values.
extern "C" __global__ void attention_mix(Nanoseconds, const float* scores, const float* values,
                                         float* out, int length, int heads, int depth) {
  for (int i = first_element(); i < length * heads * depth; i += stride_of_elements()) {
    const int head = i / depth % heads;
    const float* score = scores + (head * length + i / (heads * depth)) * length;
    float sum = 0;
    for (int j = 0; j < length; ++j) {
      sum += score[j] * values[(j * heads + head) * depth + i % depth];
    }
    out[i] = sum;
  }
}

// out = normalised (in + shortcut) * scale + shift, row by row. The shortcut may be null.
extern "C" __global__ void add_norm(Nanoseconds, const float* in, const float* shortcut,
                                    const float* scale, const float* shift, float* out, int rows,
                                    int hidden) {
  for (int row = first_element(); row < rows; row += stride_of_elements()) {
    float sum = 0;
    float squares = 0;
    for (int i = row * hidden; i < (row + 1) * hidden; ++i) {
      const float value = finished(in[i], shortcut, i, 0);
      sum += value;
      squares += value * value;
    }
    const float mean = sum / hidden;
    const float factor = rsqrtf(squares / hidden - mean * mean + 1e-5f);
    for (int i = 0; i < hidden; ++i) {
      const float value = finished(in[row * hidden + i], shortcut, row * hidden + i, 0);
      out[row * hidden + i] = (value - mean) * factor * scale[i] + shift[i];
    }
  }
}

#define LAMBENT_LAYER(kernel)                                                                  \
  LAMBENT_KERNEL_DURATION(kernel,                                                              \
                          [](dim3, dim3, Nanoseconds duration, auto...) { return duration; }); \
  LAMBENT_KERNEL(kernel)

LAMBENT_LAYER(convolution);
LAMBENT_LAYER(winograd);
LAMBENT_LAYER(padded_convolution);
LAMBENT_LAYER(window_pool);
LAMBENT_LAYER(scale_shift);
LAMBENT_LAYER(embed_words);
LAMBENT_LAYER(largest_column);
LAMBENT_LAYER(max_pool);
LAMBENT_LAYER(mean_pool);
LAMBENT_LAYER(dense);
LAMBENT_LAYER(embed);
LAMBENT_LAYER(attention_scores);
LAMBENT_LAYER(softmax);
LAMBENT_LAYER(attention_mix);
LAMBENT_LAYER(add_norm);
