// Row-wise operations between the matrix products. Each row is computed alone.
#pragma once

#include "simd.h"

// y = x / rms(x) * weight; size is a multiple of kLanes. x and y may be the same row.
static inline void rms_norm(const float* x, const float* weight, float epsilon, int size, float* y) {
    Vec squares = {};
    for (int i = 0; i < size; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
    const Vec scale = splat(1.0f / std::sqrt(sum_lanes(squares) / (float)size + epsilon));
    for (int i = 0; i < size; i += kLanes) store(y + i, load(x + i) * scale * load(weight + i));
}

// Rotates one head in place, Hugging Face's "rotate half": element i pairs with i + half.
static inline void rotate(float* head, const float* cosine, const float* sine, int half) {
    for (int i = 0; i < half; ++i) {
        const float a = head[i], b = head[i + half];
        head[i] = a * cosine[i] - b * sine[i];
        head[i + half] = b * cosine[i] + a * sine[i];
    }
}
