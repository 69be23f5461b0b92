// The one vector type that every kernel is written in, and the few operations that need
// an instruction set's own names.
//
// Plain arithmetic (+ - * / << & comparisons) comes from the compiler's vector extensions
// (GCC and clang), so it is written once. Fused multiply-add is explicit everywhere and the
// build forbids contraction (-ffp-contract=off): what is rounded, and when, must not depend on
// how a compiler inlined a function. Results are equal run to run and batch to batch on one
// machine; across instruction sets they may differ in the last bits, because reductions over
// lanes have as many lanes as the machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if !defined(KERNELS_PORTABLE) && (defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__)))
#include <immintrin.h>
#elif !defined(KERNELS_PORTABLE) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if !defined(KERNELS_PORTABLE) && defined(__AVX512F__)
#define KERNELS_ISA "avx512"
constexpr int kLanes = 16;
constexpr int kRegisters = 32;
#elif !defined(KERNELS_PORTABLE) && defined(__AVX2__) && defined(__FMA__)
#define KERNELS_ISA "avx2"
constexpr int kLanes = 8;
constexpr int kRegisters = 16;
#elif !defined(KERNELS_PORTABLE) && defined(__aarch64__)
#define KERNELS_ISA "neon"
constexpr int kLanes = 4;
constexpr int kRegisters = 32;
#else
#define KERNELS_ISA "portable"
constexpr int kLanes = 4;
constexpr int kRegisters = 16;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef uint32_t Bits __attribute__((vector_size(kLanes * 4)));

static inline Vec load(const float* source) {
    Vec v;
    memcpy(&v, source, sizeof v);  // an unaligned vector load
    return v;
}

static inline void store(float* target, Vec v) { memcpy(target, &v, sizeof v); }

// x - 0 is x for every x, so that nothing is computed (x + 0 would turn -0 into 0).
static inline Vec splat(float x) { return x - Vec{}; }

static inline Vec max(Vec a, Vec b) { return a > b ? a : b; }

static inline Bits as_bits(Vec v) { return (Bits)v; }

static inline Vec as_float(Bits b) { return (Vec)b; }

// a * b + c, rounded once.
static inline Vec fma(Vec a, Vec b, Vec c) {
#if !defined(KERNELS_PORTABLE) && defined(__AVX512F__)
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif !defined(KERNELS_PORTABLE) && defined(__AVX2__) && defined(__FMA__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif !defined(KERNELS_PORTABLE) && defined(__aarch64__)
    return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    for (int i = 0; i < kLanes; ++i) c[i] = std::fma(a[i], b[i], c[i]);
    return c;
#endif
}

// A float16 in memory. Arithmetic is always float32; only the KV cache is stored like this.
struct Half {
    uint16_t bits;
};

#if !defined(KERNELS_PORTABLE) && defined(__AVX512F__)
static inline Vec load(const Half* source) {
    return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)source));
}
static inline void store(Half* target, Vec v) {
    _mm256_storeu_si256((__m256i*)target, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}
#elif !defined(KERNELS_PORTABLE) && defined(__AVX2__) && defined(__FMA__)
static inline Vec load(const Half* source) {
    return (Vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)source));
}
static inline void store(Half* target, Vec v) {
    _mm_storeu_si128((__m128i*)target, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}
#elif !defined(KERNELS_PORTABLE) && defined(__aarch64__)
static inline Vec load(const Half* source) {
    return (Vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t*)source)));
}
static inline void store(Half* target, Vec v) {
    vst1_u16((uint16_t*)target, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
}
#else
// Exponents are rebased by a multiplication, which also gets subnormals right.
static inline Vec load(const Half* source) {
    Vec v;
    for (int i = 0; i < kLanes; ++i) {
        const uint32_t half = source[i].bits;
        uint32_t word = (half & 0x7FFF) << 13;
        float magnitude;
        memcpy(&magnitude, &word, 4);
        magnitude *= 0x1p112f;
        v[i] = half & 0x8000 ? -magnitude : magnitude;
    }
    return v;
}
static inline void store(Half* target, Vec v) {
    for (int i = 0; i < kLanes; ++i) {
        // Adding 2^13 ulp steps above the value rounds it to 11 bits, to nearest even.
        const float magnitude = std::fmin(std::fabs(v[i]), 65504.0f);
        const float step = std::fmax(magnitude, 0x1p-14f);
        uint32_t word;
        memcpy(&word, &step, 4);
        word = (word & 0x7F800000) + (13u << 23);
        float bias;
        memcpy(&bias, &word, 4);
        const float rounded = ((magnitude + bias) - bias) * 0x1p-112f;
        memcpy(&word, &rounded, 4);
        target[i].bits = (uint16_t)((word >> 13) | (std::signbit(v[i]) ? 0x8000u : 0u));
    }
}
#endif

// Sum over lanes: lane i with lane i + half, halving until one is left.
static inline float sum_lanes(Vec v) {
    float lanes[kLanes];
    store(lanes, v);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

static inline float max_lanes(Vec v) {
    float best = v[0];
    for (int i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
    return best;
}


// target[j] = the sum over the lanes of v[j], for eight vectors at once: a transposing tree, a
// third of the instructions of eight separate sums. The order is fixed for every j.
static inline void sum_lanes_of_eight(const Vec (&v)[8], float* target) {
#if !defined(KERNELS_PORTABLE) && (defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__)))
    __m256 part[8];
    UNROLL
    for (int j = 0; j < 8; ++j) {
#if defined(__AVX512F__)
        const __m512 whole = (__m512)v[j];
        const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(whole), 1));
        part[j] = _mm256_add_ps(_mm512_castps512_ps256(whole), high);
#else
        part[j] = (__m256)v[j];
#endif
    }
    __m256 pair[4];
    UNROLL
    for (int j = 0; j < 4; ++j)
        pair[j] = _mm256_add_ps(_mm256_unpacklo_ps(part[2 * j], part[2 * j + 1]),
                                _mm256_unpackhi_ps(part[2 * j], part[2 * j + 1]));
    __m256 quad[2];
    UNROLL
    for (int j = 0; j < 2; ++j) {
        const __m256d low = _mm256_castps_pd(pair[2 * j]), high = _mm256_castps_pd(pair[2 * j + 1]);
        quad[j] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(low, high)),
                                _mm256_castpd_ps(_mm256_unpackhi_pd(low, high)));
    }
    _mm256_storeu_ps(target, _mm256_add_ps(_mm256_permute2f128_ps(quad[0], quad[1], 0x20),
                                           _mm256_permute2f128_ps(quad[0], quad[1], 0x31)));
#else
    for (int j = 0; j < 8; ++j) target[j] = sum_lanes(v[j]);
#endif
}

// e^x within 2 units in the last place on [-87, 88], arguments beyond are clamped: Cody-Waite
// reduction by ln 2 and the degree-5 polynomial of Cephes expf.
static inline Vec exp(Vec x) {
    x = max(x, splat(-87.0f));
    x = x < splat(88.0f) ? x : splat(88.0f);
    // Adding 1.5 * 2^23 rounds to the nearest integer and leaves that integer in the low bits.
    const Vec shifted = fma(x, splat(1.44269504f), splat(12582912.0f));
    const Vec n = shifted - splat(12582912.0f);
    Vec r = fma(n, splat(-0.693359375f), x);
    r = fma(n, splat(2.12194440e-4f), r);
    Vec p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    const Vec value = fma(p, r * r, r) + splat(1.0f);
    return as_float(as_bits(value) + (as_bits(shifted) << 23));
}
