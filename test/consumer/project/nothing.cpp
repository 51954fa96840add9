// Links what it is given, and uses nothing of it.
int main() {}
