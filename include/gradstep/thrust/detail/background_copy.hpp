#pragma once
/// The copies of an averager on the host from a GPU; thrust/backend.hpp includes it. Empty without
/// CUDA.
#if defined(__CUDACC__)

#include <cstddef>
#include <span>
#include <utility>

#include <cuda_runtime_api.h>
#include <thrust/system/cuda/error.h>
#include <thrust/system_error.h>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
inline void require_cuda(cudaError_t result) {
    if (result != cudaSuccess) throw thrust::system_error(result, thrust::cuda_category(), "gradstep");
}

// A copy from the device to pinned host memory on a separate stream: after everything that the
// source's stream got before, and before everything that it gets later.
template <class T> class background_copy {
public:
    background_copy() = default;
    background_copy(background_copy&& other) noexcept
        : host_(std::exchange(other.host_, nullptr)), size_(std::exchange(other.size_, 0)),
          stream_(std::exchange(other.stream_, nullptr)), ready_(std::exchange(other.ready_, nullptr)),
          done_(std::exchange(other.done_, nullptr)) {}
    background_copy& operator=(background_copy&& other) noexcept {
        std::swap(host_, other.host_);
        std::swap(size_, other.size_);
        std::swap(stream_, other.stream_);
        std::swap(ready_, other.ready_);
        std::swap(done_, other.done_);
        return *this;
    }
    ~background_copy() {
        if (stream_ != nullptr) cudaStreamSynchronize(stream_);
        if (done_ != nullptr) cudaEventDestroy(done_);
        if (ready_ != nullptr) cudaEventDestroy(ready_);
        if (stream_ != nullptr) cudaStreamDestroy(stream_);
        if (host_ != nullptr) cudaFreeHost(host_);
    }

    template <class Backend> void begin(Backend const& source, std::span<T const> from) {
        reserve(from.size());
        auto const updates = source.stream();
        require_cuda(cudaEventRecord(ready_, updates));
        require_cuda(cudaStreamWaitEvent(stream_, ready_, 0));
        require_cuda(cudaMemcpyAsync(host_, from.data(), from.size_bytes(), cudaMemcpyDeviceToHost, stream_));
        require_cuda(cudaEventRecord(done_, stream_));
        require_cuda(cudaStreamWaitEvent(updates, done_, 0));
    }
    std::span<T const> wait() const {
        require_cuda(cudaEventSynchronize(done_));
        return {host_, size_};
    }

private:
    void reserve(std::size_t size) {
        if (stream_ == nullptr) require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        if (ready_ == nullptr) require_cuda(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
        if (done_ == nullptr) require_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
        if (host_ == nullptr && size != 0) require_cuda(cudaMallocHost(&host_, size * sizeof(T)));
        size_ = size; // for one tensor, so it never changes
    }

    T* host_ = nullptr;
    std::size_t size_ = 0;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t ready_ = nullptr, done_ = nullptr;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

#endif
