// y = x W^T over packed weights.
//
// Row invariance. Each output element is one chain of fused multiply-adds over k = 0, 1, 2, ...
// in a lane of its own. Tiles only choose which chains run side by side, so an element has the
// same bits whatever the batch, the tile shape and the position of its row.
//
// Packing. A panel is 2 * kLanes output columns; for each k it holds those columns' weights side
// by side. A tile of rows then needs one (bf16) or two (fp32) weight loads and one broadcast a
// row for 2 * rows multiply-adds, and the weights stream through memory exactly once, in order.
//
// Weights whose values are bf16 numbers are kept as bf16 and widened in registers: half the
// memory traffic, which is what bounds small batches, and the same bits.
#pragma once

#include "simd.h"

constexpr int kPanelColumns = 2 * kLanes;

// Accumulators take two registers a row; the panel and the broadcast take the rest: 6 rows on 16
// registers (12 + 2 + 1), 12 rows on 32.
constexpr int kTileRows = kRegisters == 32 ? 12 : 6;

struct Fp32Weights {
    using Element = float;
    static constexpr int kStep = kPanelColumns;  // elements a k

    static void unpack(const float* panel, Vec& first, Vec& second) {
        first = load(panel);
        second = load(panel + kLanes);
    }

    static void pack(float* panel, const float* columns) {
        memcpy(panel, columns, sizeof(float) * kPanelColumns);
    }
};

// Word i carries column i in its low half and column i + kLanes in its high half: widening both
// vectors costs one shift and one mask.
struct Bf16Weights {
    using Element = uint32_t;
    static constexpr int kStep = kLanes;

    static void unpack(const uint32_t* panel, Vec& first, Vec& second) {
        Bits words;
        memcpy(&words, panel, sizeof words);
        first = as_float(words << 16);
        second = as_float(words & 0xFFFF0000u);
    }

    static void pack(uint32_t* panel, const float* columns) {
        uint32_t bits[kPanelColumns];
        memcpy(bits, columns, sizeof bits);
        for (int i = 0; i < kLanes; ++i)
            panel[i] = (bits[i] >> 16) | (bits[i + kLanes] & 0xFFFF0000u);
    }
};

// Rows of a float matrix, optionally through an index: row r is base + index[r] * stride.
template <class Float>
struct RowView {
    Float* base;
    int64_t stride;
    const int32_t* index = nullptr;

    Float* operator[](int row) const { return base + (index ? index[row] : row) * stride; }
};

// Writes the lanes that lie inside the matrix.
static inline void store_columns(float* target, Vec v, int columns_left) {
    if (columns_left >= kLanes) {
        store(target, v);
    } else {
        for (int i = 0; i < columns_left; ++i) target[i] = v[i];
    }
}

// What happens to a finished pair of vectors: `first` and `second` are the halves of a panel.
struct StoreColumns {
    RowView<float> target;
    int columns;

    void operator()(int row, int panel, Vec first, Vec second) const {
        const int column = panel * kPanelColumns;
        store_columns(target[row] + column, first, columns - column);
        store_columns(target[row] + column + kLanes, second, columns - column - kLanes);
    }
};

struct AddColumns {  // columns is a multiple of kLanes
    RowView<float> target;
    int columns;

    void operator()(int row, int panel, Vec first, Vec second) const {
        const int column = panel * kPanelColumns;
        float* y = target[row] + column;
        store(y, load(y) + first);
        if (columns - column > kLanes) store(y + kLanes, load(y + kLanes) + second);
    }
};

// The panel holds kLanes gate columns and the kLanes up columns that belong to them.
struct SwigluColumns {
    RowView<float> target;

    void operator()(int row, int panel, Vec gate, Vec up) const {
        const Vec silu = gate / (splat(1.0f) + exp(-gate));
        store(target[row] + panel * kLanes, silu * up);
    }
};

template <class Weights, int Rows, int Panels, class Finish>
static inline void multiply_tile(const RowView<const float>& x, int first_row,
                                 const typename Weights::Element* weights, int depth, int panel,
                                 const Finish& finish) {
    const int64_t panel_size = (int64_t)depth * Weights::kStep;
    const typename Weights::Element* w = weights + panel * panel_size;
    const float* rows[Rows];
    UNROLL
    for (int r = 0; r < Rows; ++r) rows[r] = x[first_row + r];

    Vec sum[Rows][2 * Panels] = {};
    for (int k = 0; k < depth; ++k) {
        UNROLL
        for (int p = 0; p < Panels; ++p) {
            Vec first, second;
            Weights::unpack(w + p * panel_size, first, second);
            UNROLL
            for (int r = 0; r < Rows; ++r) {
                const Vec value = splat(rows[r][k]);
                sum[r][2 * p] = fma(value, first, sum[r][2 * p]);
                sum[r][2 * p + 1] = fma(value, second, sum[r][2 * p + 1]);
            }
        }
        w += Weights::kStep;
    }
    UNROLL
    for (int r = 0; r < Rows; ++r)
        UNROLL
        for (int p = 0; p < Panels; ++p)
            finish(first_row + r, panel + p, sum[r][2 * p], sum[r][2 * p + 1]);
}

// Turns a run-time number of rows into the tile compiled for it.
template <class Weights, int Rows, class Finish>
static inline void multiply_rows(int rows, const RowView<const float>& x, int first_row,
                                 const typename Weights::Element* weights, int depth, int panel,
                                 const Finish& finish) {
    if constexpr (Rows > 0) {
        if (rows == Rows)
            multiply_tile<Weights, Rows, 1>(x, first_row, weights, depth, panel, finish);
        else
            multiply_rows<Weights, Rows - 1>(rows, x, first_row, weights, depth, panel, finish);
    }
}

// One or two rows alone would leave multiply-add units idle (a chain waits 4 cycles for each
// step and there are two units, so 8 chains fill them): they take several panels side by side.
// Three rows and more are enough with one panel, and with two would spill out of the registers.
template <class Weights, class Finish>
static void multiply(const RowView<const float>& x, int num_rows,
                     const typename Weights::Element* weights, int depth, int num_panels,
                     const Finish& finish) {
    int panel = 0;
    if (num_rows == 1)
        for (; panel + 4 <= num_panels; panel += 4)
            multiply_tile<Weights, 1, 4>(x, 0, weights, depth, panel, finish);
    if (num_rows == 2)
        for (; panel + 2 <= num_panels; panel += 2)
            multiply_tile<Weights, 2, 2>(x, 0, weights, depth, panel, finish);

    // Tiles of nearly equal height: 8 rows are 4 + 4, not 6 and a slow 2.
    const int num_tiles = (num_rows + kTileRows - 1) / kTileRows;
    for (; panel < num_panels; ++panel) {
        int row = 0;
        for (int tile = 0; tile < num_tiles; ++tile) {
            const int rows = num_rows / num_tiles + (tile < num_rows % num_tiles);
            multiply_rows<Weights, kTileRows>(rows, x, row, weights, depth, panel, finish);
            row += rows;
        }
    }
}

// A matrix [columns, depth] as panels. The layout is shared with Python (ctypes).
struct PackedMatrix {
    const void* panels;
    int32_t columns;
    int32_t depth;
    int32_t is_bf16;

    int num_panels() const { return (columns + kPanelColumns - 1) / kPanelColumns; }
};

template <class Finish>
static void linear(const RowView<const float>& x, int num_rows, const PackedMatrix& matrix,
                   const Finish& finish) {
    if (matrix.is_bf16)
        multiply<Bf16Weights>(x, num_rows, (const uint32_t*)matrix.panels, matrix.depth,
                              matrix.num_panels(), finish);
    else
        multiply<Fp32Weights>(x, num_rows, (const float*)matrix.panels, matrix.depth,
                              matrix.num_panels(), finish);
}

// source [columns, depth] float32, row-major; missing columns of the last panel become zeros.
template <class Weights>
static void pack(const float* source, int columns, int depth, typename Weights::Element* target) {
    for (int first = 0; first < columns; first += kPanelColumns)
        for (int k = 0; k < depth; ++k) {
            float values[kPanelColumns] = {};
            for (int i = 0; i < kPanelColumns && first + i < columns; ++i)
                values[i] = source[(int64_t)(first + i) * depth + k];
            Weights::pack(target, values);
            target += Weights::kStep;
        }
}
