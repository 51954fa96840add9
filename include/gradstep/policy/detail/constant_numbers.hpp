#pragma once
#include <vector>

#include <gradstep/policy/describe.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Collects the numbers of the policies that it visits: rule, regularizer, schedule, catch-up
// policy, or one average. Paths are as in a configuration: "rule.beta1", "average.rate".
class policy_numbers final : public policy_visitor {
public:
    struct entry {
        std::string path;
        double value;
        bool is_constant; // must be the same in all steps
    };
    std::vector<entry> all() const;

    GRADSTEP_DEFINE void begin(std::string_view name) override;
    GRADSTEP_DEFINE void hyperparameter(char const* name) override;
    void constant() override { is_constant_ = true; }
    GRADSTEP_DEFINE void end() override;
    void begin_list(std::string_view name) override { begin(name); }
    void end_list() override { end(); }
    GRADSTEP_DEFINE void number(double x) override;
    void number(std::int64_t x) override { number(static_cast<double>(x)); }
    void number(std::uint64_t x) override { number(static_cast<double>(x)); }
    void boolean(bool) override { item_path(); }
    void word(std::string_view) override { item_path(); }
    void nameless(std::string_view) override { item_path(); }

private:
    struct level {
        std::string path;
        std::string key = {};  // of the next value; empty in a list
        std::size_t items = 0; // of a list
        bool is_averaged = false;
    };
    // The path of the next value.
    std::string item_path();

    std::vector<entry> all_;
    std::vector<level> open_;
    std::size_t policies_ = 0, averages_ = 0;
    bool is_constant_ = false;
};

// Visits policies in the text of `policy_text`.
void visit_policy_text(policy_visitor& to, std::string_view text);

// Throws value_error for the first number that must be the same in all steps (ranges::constant),
// and that both have, with different values. Numbers that only one of them has are ignored: earlier
// versions have fewer. `where` is the beginning of the error, and `of_now` and `of_before` say what
// has the values: "rule.beta1: is 0.5 here, and 0.9 in the file".
void require_same_constants(std::string_view where, policy_numbers const& now, char const* of_now,
                            policy_numbers const& before, char const* of_before);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/policy/detail/constant_numbers.ipp>
#endif
