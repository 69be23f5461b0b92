// Causal attention of single rows over paged keys and values, read where they lie.
//
// Row invariance. A row sees the keys of positions 0..position of its own sequence, always in
// groups of eight from position 0 on, in two passes: all scores, then all values. Nothing depends
// on the other rows of the step or on the page size, so a token has the same bits whether it
// came in a prefill of any chunking or as one decode row.
//
// Pages are walked in the outer loop and heads inside it: a page of all heads is one contiguous
// run of memory, which is what the hardware prefetcher follows.
#pragma once

#include "simd.h"

constexpr int kKeyGroup = 8;  // divides every page size; padding of the score rows

struct AttentionShape {
    int num_heads, num_kv_heads, head_dim, block_size;

    int64_t slot_size() const { return (int64_t)num_kv_heads * head_dim; }
};

// target[j] = query . key[j] for eight neighbouring slots of a page.
template <class Element>
static inline void score_keys(const float* query, const Element* key, int64_t slot_size, int head_dim,
                              float* target) {
    Vec sum[kKeyGroup] = {};
    for (int d = 0; d < head_dim; d += kLanes) {
        const Vec q = load(query + d);
        UNROLL
        for (int j = 0; j < kKeyGroup; ++j)
            sum[j] = fma(q, load(key + j * slot_size + d), sum[j]);
    }
    sum_lanes_of_eight(sum, target);
}

// sum += weights[j] * value[j], over N vectors of the head, j in order.
template <int N, class Element>
static inline void add_values(const float* weights, const Element* value, int64_t slot_size,
                              int num_keys, float* sum) {
    Vec total[N];
    UNROLL
    for (int c = 0; c < N; ++c) total[c] = load(sum + c * kLanes);
    for (int j = 0; j < num_keys; ++j) {
        const Vec weight = splat(weights[j]);
        UNROLL
        for (int c = 0; c < N; ++c)
            total[c] = fma(weight, load(value + j * slot_size + c * kLanes), total[c]);
    }
    UNROLL
    for (int c = 0; c < N; ++c) store(sum + c * kLanes, total[c]);
}

template <class Element>
static inline void add_page(const float* weights, const Element* value, int64_t slot_size,
                            int num_keys, int head_dim, float* sum) {
    int d = 0;
    for (; d + 8 * kLanes <= head_dim; d += 8 * kLanes)
        add_values<8>(weights, value + d, slot_size, num_keys, sum + d);
    for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes)
        add_values<4>(weights, value + d, slot_size, num_keys, sum + d);
    for (; d < head_dim; d += kLanes)
        add_values<1>(weights, value + d, slot_size, num_keys, sum + d);
}

// Scores become weights: softmax(scale * score). `padded` is a multiple of kLanes; the scores
// beyond the visible keys are -infinity and weigh nothing beside the largest, which is 1.
static inline void softmax(float* scores, int padded, float scale) {
    Vec best = load(scores);
    for (int j = kLanes; j < padded; j += kLanes) best = max(best, load(scores + j));
    const Vec highest = splat(max_lanes(best));
    Vec total = {};
    for (int j = 0; j < padded; j += kLanes) {
        const Vec weight = exp((load(scores + j) - highest) * splat(scale));
        store(scores + j, weight);
        total = total + weight;
    }
    const Vec inverse = splat(1.0f / sum_lanes(total));
    for (int j = 0; j < padded; j += kLanes) store(scores + j, load(scores + j) * inverse);
}

// Length of one head's score row: whole vectors of every instruction set.
static inline int64_t score_stride(int64_t num_keys) { return (num_keys + 15) / 16 * 16; }

// The part of a run of memory that head `part` of `num_parts` asks for ahead of its use: pages lie
// scattered, so the hardware prefetcher starts anew in each and must be told.
static inline void prefetch_part(const void* run, int64_t num_bytes, int part, int num_parts) {
    constexpr int64_t kLine = 64;
    const char* bytes = (const char*)run;
    const int64_t num_lines = num_bytes / kLine;
    const int64_t last = num_lines * (part + 1) / num_parts;
    for (int64_t line = num_lines * part / num_parts; line < last; ++line)
        __builtin_prefetch(bytes + line * kLine);
}

// One row: query [H, D], target [H, D]; keys and values are one layer's pages
// [P, S, G, D]; blocks is the sequence's block table; scores is scratch [H, score_stride].
template <class Element>
static void attend(const AttentionShape& shape, const float* query, const Element* keys,
                   const Element* values, const int32_t* blocks, int visible, float* scores,
                   float* target) {
    const int head_dim = shape.head_dim, heads_per_kv = shape.num_heads / shape.num_kv_heads;
    const int64_t slot_size = shape.slot_size();
    const int64_t stride = score_stride(visible);
    const int64_t group_bytes = kKeyGroup * slot_size * sizeof(Element);
    const int64_t page_bytes = shape.block_size * slot_size * sizeof(Element);
    const auto slot_of = [&](int position) {
        return ((int64_t)blocks[position / shape.block_size] * shape.block_size +
                position % shape.block_size) *
               slot_size;
    };

    for (int first = 0; first < visible; first += kKeyGroup) {
        const Element* group = keys + slot_of(first);
        const int next = first + kKeyGroup;
        const Element* ahead = next < visible ? keys + slot_of(next) : values + slot_of(0);
        for (int head = 0, kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head)
            for (int i = 0; i < heads_per_kv; ++i, ++head) {
                prefetch_part(ahead, group_bytes, head, shape.num_heads);
                score_keys(query + (int64_t)head * head_dim, group + (int64_t)kv_head * head_dim,
                           slot_size, head_dim, scores + head * stride + first);
            }
    }

    const float scale = 1.0f / std::sqrt((float)head_dim);
    for (int head = 0; head < shape.num_heads; ++head) {
        float* row = scores + head * stride;
        for (int64_t j = visible; j < stride; ++j) row[j] = -INFINITY;
        softmax(row, (int)stride, scale);
    }

    memset(target, 0, sizeof(float) * shape.num_heads * head_dim);
    for (int first = 0; first < visible; first += shape.block_size) {
        const int left = visible - first;
        const int num_keys = left < shape.block_size ? left : shape.block_size;
        const Element* page = values + slot_of(first);
        const int next = first + shape.block_size;
        const Element* ahead = values + slot_of(next < visible ? next : first);
        for (int head = 0, kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head)
            for (int i = 0; i < heads_per_kv; ++i, ++head) {
                prefetch_part(ahead, page_bytes, head, shape.num_heads);
                add_page(scores + head * stride + first, page + (int64_t)kv_head * head_dim,
                         slot_size, num_keys, head_dim, target + (int64_t)head * head_dim);
            }
    }
}
