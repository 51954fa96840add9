#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE memory_block::memory_block(memory_resource const& in, std::size_t bytes) : in_(&in), bytes_(bytes) {
    if (bytes != 0) data_ = in.allocate(bytes, handle_);
}

GRADSTEP_DEFINE memory_block::memory_block(memory_block const& other) : in_(other.in_), bytes_(other.bytes_) {
    if (other.refers_) {
        data_ = other.data_;
        refers_ = true;
    } else if (bytes_ != 0) {
        data_ = in_->duplicate(other.handle_, bytes_, handle_);
    }
}

GRADSTEP_DEFINE memory_block::~memory_block() {
    if (handle_ != nullptr) in_->release(handle_, bytes_);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
