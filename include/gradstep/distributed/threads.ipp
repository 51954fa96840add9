#pragma once
#include <cstring>

namespace gradstep::distributed::inline GRADSTEP_ABI {
GRADSTEP_DEFINE bool thread_communicator::exchange_type::test() {
    std::lock_guard const lock(hub_->mutex);
    auto& own = hub_->of(rank_);
    std::erase_if(missing_, [&](int from) {
        auto const found = own.exchange_messages.find({from, channel_, number_});
        if (found == own.exchange_messages.end()) {
            if (hub_->of(from).has_died) detail::refuse_dead(rank_, "exchange", from);
            return false;
        }
        std::span<std::byte> const to = from_[static_cast<std::size_t>(from)];
        if (found->second.size() != to.size())
            detail::refuse_message_size(rank_, from, found->second.size(), to.size());
        if (!to.empty()) std::memcpy(to.data(), found->second.data(), to.size());
        own.exchange_messages.erase(found);
        return true;
    });
    return missing_.empty();
}

GRADSTEP_DEFINE thread_communicator::~thread_communicator() {
    if (hub_ == nullptr) return;
    std::lock_guard const lock(hub_->mutex);
    auto& own = hub_->of(rank_);
    own.is = detail::thread_hub::life::ended;
    own.has_died = true;
    own.messages.clear();
    own.exchange_messages.clear();
}

GRADSTEP_DEFINE void thread_communicator::send(int to, std::vector<std::byte> bytes) {
    detail::check_rank("send", to, size());
    std::lock_guard const lock(hub_->mutex);
    auto& there = hub_->of(to);
    if (there.is == detail::thread_hub::life::ended) return;
    there.messages.push_back({rank_, std::move(bytes)});
    there.arrived.notify_one();
}

GRADSTEP_DEFINE std::optional<message> thread_communicator::receive(std::chrono::milliseconds wait) {
    std::unique_lock lock(hub_->mutex);
    auto& own = hub_->of(rank_);
    auto const any = [&] { return !own.messages.empty(); };
    if (!any() && wait.count() > 0) own.arrived.wait_for(lock, wait, any);
    if (!any()) return {};
    message out = std::move(own.messages.front());
    own.messages.pop_front();
    return out;
}

GRADSTEP_DEFINE thread_communicator::exchange_type
thread_communicator::exchange(int channel, std::span<std::span<std::byte const> const> to,
                              std::span<std::span<std::byte> const> from) {
    detail::check_message_counts(channel, to.size(), from.size(), size());
    exchange_type out;
    out.hub_ = hub_;
    out.rank_ = rank_;
    out.channel_ = channel;
    out.from_.assign(from.begin(), from.end());
    // Allocates before it sends the first block: an exchange that throws has sent none.
    std::map<detail::thread_hub::exchange_key, std::vector<std::byte>>
        copies; // one for each receiver, first in the key
    for (int r = 0; r != size(); ++r) {
        auto const bytes = to[static_cast<std::size_t>(r)];
        copies.try_emplace({r, channel, 0}, bytes.begin(), bytes.end());
        out.missing_.push_back(r);
    }
    std::lock_guard const lock(hub_->mutex);
    out.number_ = hub_->of(rank_).exchanges[channel]++;
    for (int r = 0; r != size(); ++r) {
        auto sent = copies.extract(copies.begin());
        sent.key() = {rank_, channel, out.number_};
        if (hub_->of(r).is != detail::thread_hub::life::ended) hub_->of(r).exchange_messages.insert(std::move(sent));
    }
    return out;
}

GRADSTEP_DEFINE thread_communicator::thread_communicator(std::shared_ptr<detail::thread_hub> hub, int rank,
                                                         std::chrono::milliseconds timeout)
    : hub_(std::move(hub)), rank_(rank), timeout_(timeout) {}

GRADSTEP_DEFINE thread_communicator thread_ranks::begin(int rank) {
    detail::check_rank("begin", rank, size());
    std::lock_guard const lock(hub_->mutex);
    auto& own = hub_->of(rank);
    if (own.is == detail::thread_hub::life::alive)
        detail::fail<value_error>({"begin"}, {"rank ", rank, " has not ended"}, {"a rank that has ended"});
    own.is = detail::thread_hub::life::alive;
    return {hub_, rank, timeout_};
}
} // namespace gradstep::distributed::inline GRADSTEP_ABI
