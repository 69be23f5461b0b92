// The decoder's step on a CPU, as a C interface for ctypes: the whole forward pass in one call,
// and each operation alone for the tests. Knows tensors as pointers and shapes; allocates
// nothing and keeps nothing between calls, so calls on different buffers may run side by side.
#include "attention.h"
#include "elementwise.h"
#include "linear.h"

extern "C" {

// The layouts of these structs are shared with Python (library.py).
struct Layer {
    const float* input_norm;           // [hidden]
    const float* post_attention_norm;  // [hidden]
    PackedMatrix qkv;                  // [(H + 2 G) D, hidden]
    PackedMatrix output;               // [hidden, H D]
    PackedMatrix gate_up;              // [2 ffn, hidden], kLanes gate and kLanes up in turn
    PackedMatrix down;                 // [hidden, ffn]
};

struct Decoder {
    const Layer* layers;
    const float* embedding;   // [vocab, hidden]
    const float* final_norm;  // [hidden]
    const float* cosine;      // [max_positions, D / 2]
    const float* sine;        // [max_positions, D / 2]
    int32_t num_layers, hidden_size, num_heads, num_kv_heads, head_dim, ffn_size;
    int32_t vocab_size, max_positions;
    float norm_epsilon;
};

struct Step {
    const int64_t* token_ids;     // [T]
    const int64_t* positions;     // [T]
    const int64_t* slots;         // [T] block * block_size + offset
    const int32_t* row_sequence;  // [T]
    const int64_t* output_rows;   // [R]
    const int32_t* block_tables;  // [num_sequences, max_blocks]
    void* keys;                   // [L, P, S, G, D] float32 or float16
    void* values;                 // [L, P, S, G, D]
    int32_t num_rows, num_outputs, num_sequences, max_blocks, num_blocks, block_size;
    int32_t is_kv_half;
};

// What is wrong with a step; 0 when nothing is.
enum StepFault {
    kStepSound = 0,
    kTokenOutOfRange,
    kPositionOutOfRange,
    kSlotOutOfRange,
    kSequenceOutOfRange,
    kBlockOutOfRange,
    kOutputRowOutOfRange,
};

}  // extern "C"

static inline bool inside(int64_t value, int64_t end) { return value >= 0 && value < end; }

// A wrong index would silently read or write foreign memory; the check costs microseconds.
static StepFault find_fault(const Decoder& decoder, const Step& step) {
    for (int row = 0; row < step.num_rows; ++row) {
        const int64_t position = step.positions[row];
        if (!inside(step.token_ids[row], decoder.vocab_size)) return kTokenOutOfRange;
        if (!inside(position, decoder.max_positions) ||
            position >= (int64_t)step.max_blocks * step.block_size)
            return kPositionOutOfRange;
        if (!inside(step.slots[row], (int64_t)step.num_blocks * step.block_size))
            return kSlotOutOfRange;
        if (!inside(step.row_sequence[row], step.num_sequences)) return kSequenceOutOfRange;
        const int32_t* blocks =
            step.block_tables + (int64_t)step.row_sequence[row] * step.max_blocks;
        for (int b = 0; b <= position / step.block_size; ++b)
            if (!inside(blocks[b], step.num_blocks)) return kBlockOutOfRange;
    }
    for (int i = 0; i < step.num_outputs; ++i)
        if (!inside(step.output_rows[i], step.num_rows)) return kOutputRowOutOfRange;
    return kStepSound;
}

static int64_t longest_context(const Step& step) {
    int64_t longest = 0;
    for (int row = 0; row < step.num_rows; ++row)
        if (step.positions[row] + 1 > longest) longest = step.positions[row] + 1;
    return longest;
}

// Scratch of a step, carved from one buffer.
struct Workspace {
    float *hidden, *normed, *qkv, *attended, *activated, *scores;

    static int64_t row_floats(const Decoder& d) {
        return 2 * (int64_t)d.hidden_size +
               (2 * d.num_heads + 2 * d.num_kv_heads) * (int64_t)d.head_dim + d.ffn_size;
    }

    Workspace(const Decoder& d, int64_t rows, float* buffer) {
        hidden = buffer;
        normed = hidden + rows * d.hidden_size;
        qkv = normed + rows * d.hidden_size;
        attended = qkv + rows * (d.num_heads + 2 * d.num_kv_heads) * d.head_dim;
        activated = attended + rows * d.num_heads * d.head_dim;
        scores = activated + rows * d.ffn_size;
    }
};

// Rotates queries and keys of every row and puts keys and values into their slots.
template <class Element>
static void rotate_and_store(const Decoder& d, const Step& step, float* qkv, Element* keys,
                             Element* values) {
    const int64_t row_size = (int64_t)(d.num_heads + 2 * d.num_kv_heads) * d.head_dim;
    const int64_t slot_size = (int64_t)d.num_kv_heads * d.head_dim;
    const int half = d.head_dim / 2;
    for (int row = 0; row < step.num_rows; ++row) {
        float* heads = qkv + row * row_size;
        const float* cosine = d.cosine + step.positions[row] * half;
        const float* sine = d.sine + step.positions[row] * half;
        for (int head = 0; head < d.num_heads + d.num_kv_heads; ++head)
            rotate(heads + (int64_t)head * d.head_dim, cosine, sine, half);
        const float* key = heads + (int64_t)d.num_heads * d.head_dim;
        Element* key_slot = keys + step.slots[row] * slot_size;
        Element* value_slot = values + step.slots[row] * slot_size;
        for (int64_t i = 0; i < slot_size; i += kLanes) {
            store(key_slot + i, load(key + i));
            store(value_slot + i, load(key + slot_size + i));
        }
    }
}

static void norm_rows(const Decoder& d, const float* x, const float* weight, int num_rows,
                      float* y) {
    for (int row = 0; row < num_rows; ++row)
        rms_norm(x + (int64_t)row * d.hidden_size, weight, d.norm_epsilon, d.hidden_size,
                 y + (int64_t)row * d.hidden_size);
}

template <class Element>
static void attend_row(const Decoder& d, const Step& step, int64_t row, const float* query,
                       const Element* keys, const Element* values, float* scores, float* target) {
    const AttentionShape shape{d.num_heads, d.num_kv_heads, d.head_dim, step.block_size};
    attend(shape, query, keys, values,
           step.block_tables + (int64_t)step.row_sequence[row] * step.max_blocks,
           (int)step.positions[row] + 1, scores, target);
}

template <class Element>
static void attend_rows(const Decoder& d, const Step& step, const float* queries, float* scores,
                        float* target) {
    const int64_t size = (int64_t)d.num_heads * d.head_dim;
    for (int64_t row = 0; row < step.num_rows; ++row)
        attend_row(d, step, row, queries + row * size, (const Element*)step.keys,
                   (const Element*)step.values, scores, target + row * size);
}

// One layer over `residual`, in place. Every row of the step stores its keys and values; only
// the rows that are read afterwards go on: all of them (rows == nullptr), or in the last layer
// the output rows, whose residual the caller has gathered.
template <class Element>
static void run_layer(const Decoder& d, const Step& step, int index, const Workspace& work,
                      const int64_t* rows, int num_rows, float* residual) {
    const Layer& layer = d.layers[index];
    const int64_t qkv_size = layer.qkv.columns, attended_size = layer.output.depth;
    const int64_t layer_size =
        (int64_t)step.num_blocks * step.block_size * d.num_kv_heads * d.head_dim;
    Element* keys = (Element*)step.keys + index * layer_size;
    Element* values = (Element*)step.values + index * layer_size;

    norm_rows(d, work.hidden, layer.input_norm, step.num_rows, work.normed);
    linear({work.normed, d.hidden_size}, step.num_rows, layer.qkv,
           StoreColumns{{work.qkv, qkv_size}, layer.qkv.columns});
    rotate_and_store(d, step, work.qkv, keys, values);
    for (int i = 0; i < num_rows; ++i) {
        const int64_t row = rows ? rows[i] : i;
        attend_row(d, step, row, work.qkv + row * qkv_size, keys, values, work.scores,
                   work.attended + i * attended_size);
    }
    linear({work.attended, attended_size}, num_rows, layer.output,
           AddColumns{{residual, d.hidden_size}, d.hidden_size});

    norm_rows(d, residual, layer.post_attention_norm, num_rows, work.normed);
    linear({work.normed, d.hidden_size}, num_rows, layer.gate_up,
           SwigluColumns{{work.activated, d.ffn_size}});
    linear({work.activated, d.ffn_size}, num_rows, layer.down,
           AddColumns{{residual, d.hidden_size}, d.hidden_size});
}

template <class Element>
static void forward(const Decoder& d, const Step& step, float* workspace, float* target) {
    const Workspace work(d, step.num_rows, workspace);
    const size_t hidden_bytes = sizeof(float) * d.hidden_size;
    for (int64_t row = 0; row < step.num_rows; ++row)
        memcpy(work.hidden + row * d.hidden_size,
               d.embedding + step.token_ids[row] * d.hidden_size, hidden_bytes);
    for (int index = 0; index + 1 < d.num_layers; ++index)
        run_layer<Element>(d, step, index, work, nullptr, step.num_rows, work.hidden);

    for (int64_t i = 0; i < step.num_outputs; ++i)
        memcpy(target + i * d.hidden_size, work.hidden + step.output_rows[i] * d.hidden_size,
               hidden_bytes);
    run_layer<Element>(d, step, d.num_layers - 1, work, step.output_rows, step.num_outputs, target);
    norm_rows(d, target, d.final_norm, step.num_outputs, target);
}

extern "C" {

const char* kernels_isa() { return KERNELS_ISA; }
int32_t kernels_lanes() { return kLanes; }
int32_t kernels_panel_columns() { return kPanelColumns; }

// source [columns, depth] float32 -> target, panels * depth * kPanelColumns bf16 or float32.
void kernels_pack(const float* source, int32_t columns, int32_t depth, int32_t is_bf16,
                  void* target) {
    if (is_bf16)
        pack<Bf16Weights>(source, columns, depth, (uint32_t*)target);
    else
        pack<Fp32Weights>(source, columns, depth, (float*)target);
}

// x [rows, depth] -> y [rows, columns].
void kernels_linear(const float* x, int32_t num_rows, const PackedMatrix* matrix, float* y) {
    linear({x, matrix->depth}, num_rows, *matrix,
           StoreColumns{{y, matrix->columns}, matrix->columns});
}

// y [rows, columns] += x W^T.
void kernels_linear_add(const float* x, int32_t num_rows, const PackedMatrix* matrix, float* y) {
    linear({x, matrix->depth}, num_rows, *matrix,
           AddColumns{{y, matrix->columns}, matrix->columns});
}

// x [rows, depth] -> y [rows, columns / 2] = silu(x gate^T) * (x up^T).
void kernels_linear_swiglu(const float* x, int32_t num_rows, const PackedMatrix* matrix,
                           float* y) {
    linear({x, matrix->depth}, num_rows, *matrix, SwigluColumns{{y, matrix->columns / 2}});
}

void kernels_rms_norm(const float* x, const float* weight, float epsilon, int32_t num_rows,
                      int32_t size, float* y) {
    for (int64_t row = 0; row < num_rows; ++row)
        rms_norm(x + row * size, weight, epsilon, size, y + row * size);
}

// qkv [T, (H + 2 G) D] of one layer: queries and keys rotated in place, keys and values stored.
void kernels_rotate_and_store(const Decoder* decoder, const Step* step, float* qkv) {
    if (step->is_kv_half)
        rotate_and_store(*decoder, *step, qkv, (Half*)step->keys, (Half*)step->values);
    else
        rotate_and_store(*decoder, *step, qkv, (float*)step->keys, (float*)step->values);
}

// Floats of scratch that kernels_attention needs.
int64_t kernels_attention_workspace(const Decoder* decoder, const Step* step) {
    return decoder->num_heads * score_stride(longest_context(*step));
}

// queries [T, H, D] over the pages of one layer -> target [T, H, D].
void kernels_attention(const Decoder* decoder, const Step* step, const float* queries,
                       float* workspace, float* target) {
    if (step->is_kv_half)
        attend_rows<Half>(*decoder, *step, queries, workspace, target);
    else
        attend_rows<float>(*decoder, *step, queries, workspace, target);
}

// Floats of scratch that kernels_forward needs.
int64_t kernels_forward_workspace(const Decoder* decoder, const Step* step) {
    return step->num_rows * Workspace::row_floats(*decoder) +
           kernels_attention_workspace(decoder, step);
}

// The whole step: tokens -> hidden states of the output rows after the final norm,
// target [R, hidden]. Returns a StepFault, before anything was written.
int32_t kernels_forward(const Decoder* decoder, const Step* step, float* workspace,
                        float* target) {
    const StepFault fault = find_fault(*decoder, *step);
    if (fault != kStepSound) return fault;

    if (step->is_kv_half)
        forward<Half>(*decoder, *step, workspace, target);
    else
        forward<float>(*decoder, *step, workspace, target);
    return kStepSound;
}

// hidden [R, hidden] -> logits [R, codebook_size + 1] over each row's own block of codes.
// blocks[0] has codebook_size + 1 columns, the last one end-of-speech; the others codebook_size,
// and -infinity for end-of-speech. rows_by_block lists the rows of block 0, then of block 1, ...
void kernels_head(const float* hidden, const PackedMatrix* blocks, int32_t num_blocks,
                  const int32_t* rows_by_block, const int32_t* block_counts,
                  int32_t codebook_size, float* logits) {
    const int32_t* rows = rows_by_block;
    for (int block = 0; block < num_blocks; ++block) {
        const PackedMatrix& matrix = blocks[block];
        linear({hidden, matrix.depth, rows}, block_counts[block], matrix,
               StoreColumns{{logits, codebook_size + 1, rows}, matrix.columns});
        if (matrix.columns == codebook_size)
            for (int i = 0; i < block_counts[block]; ++i)
                logits[(int64_t)rows[i] * (codebook_size + 1) + codebook_size] = -INFINITY;
        rows += block_counts[block];
    }
}

}  // extern "C"
