# What Doxygen reads instead of a header.

# Names without the inline namespace of the instruction set.
s#^(namespace [a-z_:]+)::inline GRADSTEP_(ISA|ABI|RUNTIME_ABI)((::[a-z]+)?) \{#\1\3 {#
s#^inline namespace GRADSTEP_(ISA|ABI|RUNTIME_ABI) \{$##
s#^\} // namespace GRADSTEP_(ISA|ABI|RUNTIME_ABI)$##

# Classes without the bases that only implement them.
s#^( *(template <.*> )?(class|struct) [a-z_]+) : (public )?detail::[^{]*\{#\1 {#
s#^ +: public [^{]*detail::[^{]*\{#{#

# The parts of a docstring that have a name begin a paragraph.
/^ *\/\/\/ /{
    s#^( *///) (State|Ranges?|Other frameworks|Elsewhere|Throws)\b#\1\n\1 \2#
    :again
    s#(^|\n)( *///)( [^\n]*[.)]) (State|Ranges?|Other frameworks|Elsewhere): #\1\2\3\n\2\n\2 \4: #
    t again
    s#(\n *///) (State|Ranges?|Other frameworks|Elsewhere):#\1 **\2:**#g
}
